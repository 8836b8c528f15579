// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// calls counts which of the library's functions the module called, and keeps
// what it was asked for.
type calls struct {
	activate, preflight, observe int
	want                         activation.Want
}

// stubLibrary keeps the module off this host.
func stubLibrary(t testing.TB, result activation.Result) *calls {
	c := &calls{}
	oldActivate, oldPreflight, oldObserve, oldSocket := activate, preflight, observe, logSocket
	t.Cleanup(func() { activate, preflight, observe, logSocket = oldActivate, oldPreflight, oldObserve, oldSocket })
	logSocket = "/nonexistent/log"
	do := func(counter *int) func(context.Context, activation.Host, activation.Service, activation.Want) (activation.Result, error) {
		return func(_ context.Context, _ activation.Host, _ activation.Service, want activation.Want) (activation.Result, error) {
			*counter++
			c.want = want
			if result.Err != nil {
				return result, result.Err
			}
			return result, nil
		}
	}
	activate, preflight = do(&c.activate), do(&c.preflight)
	observe = func(_ context.Context, _ activation.Host, _ activation.Service, want activation.Want) (*activation.Observed, error) {
		c.observe++
		c.want = want
		return nil, &activation.Error{Kind: activation.KindIO, Detail: "not looked at"}
	}
	return c
}

func ask(t *testing.T, named *module, raw string) map[string]any {
	t.Helper()
	var out bytes.Buffer
	runModule(context.Background(), named, "-", strings.NewReader(raw), &out)
	var object map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &object))
	return object
}

func TestCheckModeIsPreflight(t *testing.T) {
	c := stubLibrary(t, activation.Result{Outcome: activation.OutcomeActivated, Changed: true, Before: factsBefore, After: factsAfter})
	r := ask(t, nil, `{"path":"/a","checksum":"`+strings.Repeat("a", 64)+`","_ansible_check_mode":true,"_ansible_diff":true}`)
	assert.Equal(t, 1, c.preflight)
	assert.Zero(t, c.activate)
	assert.Equal(t, true, r["changed"])
	assert.Equal(t, false, r["failed"])
	assert.Equal(t, []any{}, r["plan"])
	assert.Contains(t, r, "diff")
	assert.NotContains(t, r, "rc")
}

func TestRunIsActivate(t *testing.T) {
	c := stubLibrary(t, activation.Result{Outcome: activation.OutcomeActivated, Changed: true})
	r := ask(t, nil, `{"path":"/a","state":"rolled_back"}`)
	assert.Equal(t, 1, c.activate)
	assert.Zero(t, c.preflight)
	assert.NotContains(t, r, "diff")
	arguments := r["invocation"].(map[string]any)["module_args"].(map[string]any)
	assert.Len(t, arguments, len(daemonBinary.arguments))
	assert.Equal(t, "rolled_back", arguments["state"])
}

func TestInvocationIsLeftOut(t *testing.T) {
	stubLibrary(t, activation.Result{Outcome: activation.OutcomeUnchanged})
	for _, key := range []string{`"_ansible_no_log":true`, `"_ansible_inject_invocation":false`} {
		assert.NotContains(t, ask(t, nil, `{"path":"/a","state":"adopted",`+key+`}`), "invocation", key)
	}
	assert.Contains(t, ask(t, nil, `{"path":"/a","state":"adopted","_ansible_inject_invocation":true,"_ansible_of_tomorrow":{}}`), "invocation")
}

func TestDecisionsAreToldWhenAskedFor(t *testing.T) {
	stubLibrary(t, activation.Result{Outcome: activation.OutcomeUnchanged, Decisions: []string{"because"}})
	for _, extra := range []string{``, `,"_ansible_verbosity":0`, `,"_ansible_verbosity":2`} {
		assert.NotContains(t, ask(t, nil, `{"path":"/a","state":"adopted"`+extra+`}`), "decisions", extra)
	}
	assert.Equal(t, []any{"because"}, ask(t, nil, `{"path":"/a","state":"adopted","_ansible_verbosity":3}`)["decisions"])
}

func TestFailureIsTold(t *testing.T) {
	stubLibrary(t, activation.Result{Outcome: activation.OutcomeFailedRolledBack, Before: factsBefore, After: factsBefore,
		Rollback: &activation.RollbackReport{Attempted: true, Succeeded: true, Reason: "unhealthy"},
		Err:      &activation.Error{Kind: activation.KindUnhealthy, Step: "health", Detail: "it died", Hint: "look"}})
	r := ask(t, nil, `{"path":"/a","state":"adopted"}`)
	assert.Equal(t, true, r["failed"])
	assert.Equal(t, "failed_rolled_back", r["outcome"])
	assert.Equal(t, map[string]any{"kind": "unhealthy", "step": "health", "detail": "it died", "hint": "look"}, r["error"])
	assert.Equal(t, map[string]any{"attempted": true, "succeeded": true, "reason": "unhealthy"}, r["rollback"])
}

func TestNameDecidesWhichModule(t *testing.T) {
	c := stubLibrary(t, activation.Result{})
	info := `{"path":"/a","_ansible_module_name":"lastgood.activation.daemon_binary_info"}`
	ask(t, nil, info)
	assert.Equal(t, 1, c.observe)
	ask(t, moduleNamed("AnsiballZ_daemon_binary_info"), `{"path":"/a"}`)
	assert.Equal(t, 2, c.observe)
	r := ask(t, moduleNamed("daemon_binary"), info) // the file's name comes first
	assert.Equal(t, 2, c.observe)
	assert.Contains(t, r["msg"], "state is present but any")
	assert.Nil(t, moduleNamed("lastgood"))
	assert.Equal(t, daemonBinaryInfoName, moduleNamed("lastgood.activation.daemon_binary_info").name)
}

func TestSrcNeedsTheActionPlugin(t *testing.T) {
	c := stubLibrary(t, activation.Result{})
	r := ask(t, nil, `{"path":"/a","src":"files/foo"}`)
	assert.Equal(t, "src 'files/foo' is on the controller, and the action plugin that sends it did not run. Nothing was changed. "+
		"Put the candidate on the host and set remote_src: true, or install the whole collection lastgood.activation on the controller.", r["msg"])
	assert.Equal(t, "invalid_args", r["error"].(map[string]any)["kind"])
	assert.Zero(t, c.activate)
}

const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

// channelOf is what the action plugin says about a candidate of one byte, x.
func channelOf(sent string) string {
	return `"_lastgood":{"src_name":"files/foo","candidate":{"sha256":"` + sumOfX + `","size":1,"head":"eA=="},"sent":"` + sent + `"}`
}

func TestCandidateFromTheController(t *testing.T) {
	c := stubLibrary(t, activation.Result{Outcome: activation.OutcomeUnchanged})
	r := ask(t, nil, `{"path":"/a","src":"foo",`+channelOf("")+`}`)
	require.Equal(t, false, r["failed"], r["msg"])
	assert.Equal(t, "files/foo", c.want.Candidate.Name)
	assert.Equal(t, "foo", r["invocation"].(map[string]any)["module_args"].(map[string]any)["src"])

	file := filepath.Join(t.TempDir(), "tmp123")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o700))
	r = ask(t, nil, `{"path":"/a","src":"foo",`+channelOf(file)+`}`)
	require.Equal(t, false, r["failed"], r["msg"])
	assert.Equal(t, "files/foo", c.want.Candidate.Name)
	assert.Equal(t, sumOfX, c.want.Checksum)
}

func TestCandidateIsAskedForOnlyWhereItIsNeeded(t *testing.T) {
	needed := activation.Result{Outcome: activation.OutcomeRefused, Err: &activation.Error{Kind: activation.KindCandidateMissing, Err: activation.ErrCandidateNotHere}}
	plan := []activation.Step{{Step: activation.StepInstall}}
	sent := filepath.Join(t.TempDir(), "sent")
	require.NoError(t, os.WriteFile(sent, []byte("x"), 0o700))
	tests := []struct {
		name   string
		result activation.Result
		args   string
		need   any
	}{
		{"a plan installs it", needed, channelOf(""), true},
		{"it was sent", needed, channelOf(sent), nil},
		{"nothing installs it", activation.Result{}, channelOf(""), nil},
		{"a preflight", activation.Result{Plan: plan}, `"_ansible_check_mode":true,` + channelOf(""), nil},
		{"a preflight that is to verify", activation.Result{Plan: plan}, `"_ansible_check_mode":true,"verify_in_check_mode":true,` + channelOf(""), true},
		{"a preflight without change", activation.Result{}, `"_ansible_check_mode":true,"verify_in_check_mode":true,` + channelOf(""), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stubLibrary(t, test.result)
			assert.Equal(t, test.need, ask(t, nil, `{"path":"/a","src":"foo",`+test.args+`}`)["_lastgood_need_candidate"])
		})
	}
}

func TestChannelTakesOnlyItsKeys(t *testing.T) {
	stubLibrary(t, activation.Result{})
	for raw, want := range map[string]string{
		`1`:                            "_lastgood is no dict",
		`{"x":1}`:                      "_lastgood has an unknown key x",
		`{"candidate":[]}`:             "_lastgood.candidate is no dict",
		`{"candidate":{"mode":1}}`:     "_lastgood.candidate has an unknown key mode",
		`{"candidate":{"sha256":"a"}}`: "checksum 'a' is 1 characters long",
		`{"candidate":{"sha256":"` + sumOfX + `","head":"?"}}`: "head is not base64",
	} {
		assert.Contains(t, ask(t, nil, `{"path":"/a","_lastgood":`+raw+`}`)["msg"], want)
	}
}

func TestPanicInTheLibraryIsAReply(t *testing.T) {
	stubLibrary(t, activation.Result{})
	activate = func(context.Context, activation.Host, activation.Service, activation.Want) (activation.Result, error) {
		panic("boom\u0085")
	}
	r := ask(t, nil, `{"path":"/a","state":"adopted"}`)
	assert.Equal(t, true, r["failed"])
	assert.Equal(t, "internal", r["error"].(map[string]any)["kind"])
}
