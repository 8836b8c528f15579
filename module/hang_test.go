// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// Input that is as large or as deep as can be ends with a clear word. The limit
// is far from what it takes: it tells a hang from a slow machine.
func TestNoInputHangs(t *testing.T) {
	stubLibrary(t, activation.Result{Outcome: activation.OutcomeUnchanged})
	const room = maxArguments - 100 // within the limit, with what is around it
	fill := func(before, piece, after string) string {
		return before + strings.Repeat(piece, (room-len(before)-len(after))/len(piece)) + after
	}
	adopt := `{"path":"/a","state":"adopted",`
	nested := room / 2
	tests := []struct{ name, raw, want string }{
		{"ten megabytes in a string", adopt + `"unit":"` + strings.Repeat("x", 10<<20) + `"}`, "can't read the arguments from standard input: they are longer than 1048576 bytes. Nothing was changed. Look for one that holds a file's content where the file's path belongs."},
		{"millions of commas", adopt + `"version_args":"` + strings.Repeat(",", 5<<20) + `"}`, "they are longer than 1048576 bytes"},
		{"a list of commas", fill(adopt+`"version_args":"`, ",", `"}`), ""},
		{"a list of empty strings", fill(adopt+`"version_args":[""`, `,""`, `]}`), ""},
		{"a JSON list in a string", fill(adopt+`"version_args":"[1`, `,1`, `]"}`), ""},
		{"many parameters", fill(adopt+`"a":1`, `,"b":1`, `}`), "the arguments have b twice"},
		{"pairs", fill(adopt+`"health":"`, `a=1 `, `"}`), `unable to evaluate string in the "key=value" format as dictionary`},
		{"quotes", fill(adopt+`"health":"a=`, `'`, `"}`), "Unsupported parameters"},
		{"open lists", strings.Repeat("[", room), "not valid JSON"},
		{"nested lists", `{"a":` + strings.Repeat("[", nested) + strings.Repeat("]", nested) + `}`, "not valid JSON"}, // for Go 10000 levels are too many
		{"nested lists within Go's limit", `{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, "nested more than 32 levels deep"},
		{"nested objects", `{"a":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + `}`, "nested more than 32 levels deep"},
		{"nested in a dict's text", adopt + `"health":"` + strings.Repeat(`{\"a\":`, 9000) + "1" + strings.Repeat("}", 9000) + `"}`, "unable to evaluate string as dictionary"},
		{"nested in a list's text", adopt + `"version_args":"` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `"}`, "unable to convert to str"},
		{"dollars", fill(adopt+`"signal_path":"/`, "$", `"}`), "bytes long, and no path is longer than 4096"},
		{"open braces", fill(adopt+`"signal_path":"/`, "${", `"}`), "bytes long, and no path is longer than 4096"},
		{"dollars in a list", fill(adopt+`"version_args":"`, "$", `"}`), ""},
		{"folders", fill(adopt+`"signal_path":"/`, "a/", `"}`), "bytes long, and no path is longer than 4096"},
		{"a long number", fill(adopt+`"lock_timeout":1`, "0", `}`), "unable to convert to float"},
		{"a long mode", fill(adopt+`"mode":"u=`, "r", `"}`), "a symbolic mode must set"},
		{"mode of commas", fill(adopt+`"mode":"u=r`, ",", `"}`), "a symbolic mode must set"},
		{"URLs", fill(adopt+`"version_args":"`, "a://b:c@", `"}`), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				runModule(context.Background(), nil, "-", strings.NewReader(test.raw), &out)
			}()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("it hangs")
			}
			requireOneObject(t, out.Bytes())
			var r reply
			require.NoError(t, json.Unmarshal(out.Bytes(), &r))
			assert.Equal(t, test.want != "", r.Failed, r.Msg[:min(200, len(r.Msg))])
			assert.Contains(t, r.Msg, test.want)
			assert.Less(t, len(r.Msg), 4<<10, "a message is for people")
		})
	}
}
