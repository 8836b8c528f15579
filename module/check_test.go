// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorded is what became of a case: in ansible-core, as testdata/record.py
// found, or here.
type recorded struct {
	Error  string         `json:"error"`
	Errors []string       `json:"errors"`
	Values map[string]any `json:"values"`
}

// TestArgumentsAsAnsible holds coercion and wording to ansible-core's own.
func TestArgumentsAsAnsible(t *testing.T) {
	t.Setenv("HOME", "/home/lastgood") // as it was when the cases were recorded
	raw, err := os.ReadFile("testdata/arguments.json")
	require.NoError(t, err)
	var cases []struct {
		Args    json.RawMessage `json:"args"`
		Ansible recorded        `json:"ansible"`
		Ours    *recorded       `json:"ours"` // instead, where there is a reason
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(string(c.Args), func(t *testing.T) {
			want := c.Ansible
			if c.Ours != nil {
				want = *c.Ours
			}
			if want.Error == "" && len(want.Errors) > 0 {
				want.Error = want.Errors[0]
			}
			given, err := parseObject(c.Args)
			require.NoError(t, err)
			got, err := checkArguments(daemonBinary, meta{fqcn: "lastgood.activation.daemon_binary"}, given)
			if want.Error != "" {
				require.Error(t, err)
				assert.Equal(t, sortedBooleans(want.Error), sortedBooleans(err.Error()))
				return
			}
			require.NoError(t, err)
			for name, value := range want.Values {
				assert.Equal(t, value, throughJSON(t, got[name]), name)
			}
		})
	}
}

// sortedBooleans sorts the spellings, which Python lists in a random order.
func sortedBooleans(message string) string {
	before, list, found := strings.Cut(message, "Valid booleans include: ")
	if !found {
		return message
	}
	spellings := strings.Split(list, ", ")
	slices.Sort(spellings)
	return before + strings.Join(spellings, " ")
}

func throughJSON(t *testing.T, value any) any {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	var back any
	require.NoError(t, json.Unmarshal(raw, &back))
	return back
}

func TestUnknownParametersMayBeIgnored(t *testing.T) {
	given, err := parseObject([]byte(`{"path":"/a","checksum":"x","later":1,"health":{"later":1}}`))
	require.NoError(t, err)
	v, err := checkArguments(daemonBinary, meta{ignoreUnknown: true}, given)
	require.NoError(t, err)
	assert.NotContains(t, v, "later")
	assert.NotContains(t, v["health"], "later")
}

func TestInfoTakesOnlyWhatIdentifies(t *testing.T) {
	given, err := parseObject([]byte(`{"path":"/a","src":"/b"}`))
	require.NoError(t, err)
	_, err = checkArguments(daemonBinaryInfo, meta{fqcn: "lastgood.activation.daemon_binary_info"}, given)
	assert.EqualError(t, err, "Unsupported parameters for (lastgood.activation.daemon_binary_info) module: src. Supported parameters include: "+
		"layout, lock_path, path, signal_path, slot_dir, state_dir, unit, version_args, version_timeout.")
}

func TestStrictJSON(t *testing.T) {
	tests := []struct{ name, raw, want string }{
		{"empty", ``, "not valid JSON"},
		{"array", `[]`, "JSON list, not an object"},
		{"number", `3`, "JSON int, not an object"},
		{"two objects", `{}{}`, "not valid JSON"},
		{"number with a tail", `{"a":3x}`, "not valid JSON"},
		{"infinity", `{"a":Infinity}`, "not valid JSON"},
		{"cut off", `{"a":1`, "not valid JSON"},
		{"twice", `{"path":"/a","path":"/b"}`, "have path twice"},
		{"twice, one escaped", `{"path":"/a","p\u0061th":"/b"}`, "have path twice"},
		{"twice below", `{"health":{"tcp":"a","tcp":"b"}}`, "have health.tcp twice"},
		{"twice in a list", `{"a":[{"b":1,"b":2}]}`, "have a.0.b twice"},
		{"too deep", `{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, "nested more than 32 levels deep"},
		{"twice in Ansible's own", `{"_ansible_diff":true,"_ansible_diff":false}`, "have _ansible_diff twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseObject([]byte(test.raw))
			assert.ErrorContains(t, err, test.want)
		})
	}
	_, err := parseObject([]byte(`{"a":[1,1,"x","x"],"b":{"a":1},"c":[{"a":1},{"a":1}]}`))
	assert.NoError(t, err)
}

func TestArgumentsAreBounded(t *testing.T) {
	_, err := readBounded(strings.NewReader(strings.Repeat(" ", maxArguments)))
	require.NoError(t, err)
	_, err = readBounded(strings.NewReader(strings.Repeat(" ", maxArguments+1)))
	assert.ErrorIs(t, err, errTooLong)
}
