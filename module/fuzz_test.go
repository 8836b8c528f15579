// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lastgood/lastgood/activation"
)

// FuzzArguments holds the module to its one promise about any bytes at all:
// it doesn't panic, and what it prints is one line of ASCII that is one JSON
// object.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"path":"/a"}`, `{"path":"/a","path":"/b"}`, `{"path":3x}`,
		`{"path":"/nonexistent/a","state":"adopted","_ansible_check_mode":true}`,
		`{"path":"/a","src":"/b","health":"stable_for=1 tcp='a:1'","mode":493}`,
		`{"path":"/a\ud800","health":{"command":"[\"a\"]"},"_lastgood":{"src_name":"x","candidate":{"sha256":"00"}}}`,
		`{"path":"/nonexistent/a","_ansible_module_name":"lastgood.activation.daemon_binary_info"}`,
		`{"path":"~/$HOME/${x}","src":"/b","remote_src":"yes","lock_timeout":" 1_0 ","version_args":"[\"a\"]","_ansible_verbosity":4,"_ansible_diff":true}`,
		`{"path":"/a","state":"rolled_back","layout":"{\"blue\":\"/b\"}","restart":false,"mode":"u=rwx,go=","owner":0,"unit":"foo@"}`,
		`{"path":"/a","checksum":"sha256:ab","version":1.10,"health":{"stable_for":null,"tcp":"[::1]:1"},"zz":{"a":[{}]}}`,
	} {
		f.Add([]byte(seed))
	}
	stubLibrary(f, activation.Result{Outcome: activation.OutcomeUnchanged, Decisions: []string{"because"}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var out bytes.Buffer
		runModule(context.Background(), nil, "-", bytes.NewReader(raw), &out)
		requireOneObject(t, out.Bytes())
	})
}

func requireOneObject(t *testing.T, out []byte) {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(out, &object); err != nil {
		t.Fatalf("not one JSON object: %v: %q", err, out)
	}
	text := strings.TrimSuffix(string(out), "\n")
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > 0x7e }) {
		t.Fatalf("not one line of printable ASCII: %q", text)
	}
	if _, ok := object["failed"].(bool); !ok {
		t.Fatalf("no failed: %q", out)
	}
}
