// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

var (
	factsBefore = activation.Facts{Managed: true, Current: "/opt/foo-blue", LastGood: "/opt/foo-blue", ActiveSlot: "blue", SHA256: "aaaaaaaaaaaaaaaaaaaa", Version: "1.0", Size: 10, Mode: "0755",
		Unit: &activation.UnitFacts{ActiveState: "active", SubState: "running", MainPID: 5}}
	factsAfter = activation.Facts{Managed: true, Current: "/opt/foo-green", LastGood: "/opt/foo-blue", ActiveSlot: "green", SHA256: "bbbbbbbbbbbbbbbbbbbb", Version: "2.0", Size: 10, Mode: "0755",
		Unit: &activation.UnitFacts{ActiveState: "active"}}
	wantFoo = activation.NewWant("/usr/local/bin/foo", activation.Present)
)

func TestMessages(t *testing.T) {
	failed := &activation.Error{Kind: activation.KindUnhealthy, Step: "health", Detail: "foo.service ran 2.0 and its process ended with status 1", Hint: "read `journalctl -u foo.service`"}
	tests := []struct {
		name   string
		result activation.Result
		want   string
	}{
		{"activated", activation.Result{Outcome: activation.OutcomeActivated, Changed: true, Before: factsBefore, After: factsAfter},
			"activated 2.0 (sha256 bbbbbbbbbbbb) in /opt/foo-green; last-good is 1.0"},
		{"unchanged", activation.Result{Outcome: activation.OutcomeUnchanged, Before: factsBefore, After: factsBefore},
			"/usr/local/bin/foo is 1.0 (sha256 aaaaaaaaaaaa) already; nothing to do"},
		{"adopted", activation.Result{Outcome: activation.OutcomeAdopted, After: factsBefore},
			"adopted 1.0 (sha256 aaaaaaaaaaaa) in /opt/foo-blue"},
		{"refused", activation.Result{Outcome: activation.OutcomeRefused, Err: failed},
			"foo.service ran 2.0 and its process ended with status 1. Nothing was changed. Read `journalctl -u foo.service`."},
		{"rolled back", activation.Result{Outcome: activation.OutcomeFailedRolledBack, Err: failed, Before: factsBefore, After: factsBefore},
			"foo.service ran 2.0 and its process ended with status 1. The host was rolled back: 1.0 (sha256 aaaaaaaaaaaa) is active again in /opt/foo-blue, and its unit is active (running). Read `journalctl -u foo.service`."},
		{"dirty", activation.Result{Outcome: activation.OutcomeFailedDirty, Err: failed, After: factsAfter, Rollback: &activation.RollbackReport{Attempted: true, Error: "the disk is full"}},
			"foo.service ran 2.0 and its process ended with status 1. The rollback failed too: the disk is full. A person has to look at this host: current is /opt/foo-green (2.0 (sha256 bbbbbbbbbbbb)), last-good is /opt/foo-blue, and its unit is active. Read `journalctl -u foo.service`."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, message(test.result, wantFoo, false))
		})
	}
}

func TestCheckModeMessage(t *testing.T) {
	result := activation.Result{Outcome: activation.OutcomeActivated, Changed: true, Before: factsBefore, After: factsAfter}
	assert.Equal(t, "would activate 2.0 (sha256 bbbbbbbbbbbb) in /opt/foo-green; last-good is 1.0", message(result, wantFoo, true))
}

func TestDiffHoldsWhatDiffers(t *testing.T) {
	plan := []activation.Step{{Step: "verify"}, {Step: "install", Changes: true}, {Step: "last_good", Changes: true}}
	d := newDiff(activation.Result{Before: factsBefore, After: factsAfter, Plan: plan}, "/usr/local/bin/foo")
	assert.Equal(t, "version: 1.0\nsha256: aaaaaaaaaaaa\ncurrent: /opt/foo-blue\n", d.Before)
	assert.Equal(t, "version: 2.0\nsha256: bbbbbbbbbbbb\ncurrent: /opt/foo-green\n", d.After)
	assert.Equal(t, "steps: install, last-good\n", d.Prepared)
	same := newDiff(activation.Result{Before: factsBefore, After: factsBefore}, "/usr/local/bin/foo")
	assert.Empty(t, same.Before+same.After+same.Prepared)
}

func TestReplyIsASCII(t *testing.T) {
	hostile := "\u0085\u2028\u2029\xff\x00\n\u00fc\U0001f600\x7f</script>"
	raw := reply{Msg: hostile, Warnings: []string{hostile}}.encode()
	require.Equal(t, byte('\n'), raw[len(raw)-1])
	for _, c := range raw[:len(raw)-1] {
		require.True(t, c >= ' ' && c < 0x7f, "%q", c)
	}
	var back reply
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Equal(t, "\u0085\u2028\u2029\ufffd\x00\n\u00fc\U0001f600\x7f</script>", back.Msg)
}

func TestPanicIsOneFailedObject(t *testing.T) {
	r := bug("boom")
	assert.True(t, r.Failed)
	assert.Equal(t, activation.KindInternal, r.Error.Kind)
	assert.Contains(t, r.Msg, "boom")
	assert.Contains(t, r.Exception, "goroutine")
}

func TestUnknownErrorsAreInternal(t *testing.T) {
	r := refusal(errors.New("what"))
	assert.Equal(t, activation.KindInternal, r.Error.Kind)
}

func TestPasswordsOfURLsAreHidden(t *testing.T) {
	tests := map[string]string{
		"curl http://u:secret@h/x":      "curl http://u:********@h/x",
		"http://u:p@w@h":                "http://u:********@h",
		"http://h:80/a@b":               "http://h:80/a@b",
		"http://u@h and ftp://a:b@c/d ": "http://u@h and ftp://a:********@c/d ",
		"a@b:c":                         "a@b:c",
		"":                              "",
	}
	for text, want := range tests {
		assert.Equal(t, want, censorURL(text))
	}
	nested := values{"health": values{"command": []string{"http://u:secret@h"}}, "src": nil, "rollback": true}
	assert.Equal(t, values{"health": values{"command": []string{"http://u:********@h"}}, "src": nil, "rollback": true}, censored(nested))
}

func TestLogLine(t *testing.T) {
	v := values{"path": "/a", "unit": "x\ny", "rollback": true, "version_args": []string{"--version"}, "src": nil}
	line := logLine(meta{fqcn: "lastgood.activation.daemon_binary", facility: "LOG_LOCAL3", logInfo: "play7"}, v, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	assert.Regexp(t, `^<158>Jan  2 03:04:05 ansible-lastgood\.activation\.daemon_binary\[\d+\]: play7 Invoked with path=/a rollback=true unit=x\?y version_args=\["--version"\]$`, line)
	assert.Equal(t, 1, facility("LOG_NONSENSE"))
	assert.Equal(t, 3, facility("LOG_DAEMON"))
}

func TestLogIsSentOnceAndNeverWaitedFor(t *testing.T) {
	logSocket = filepath.Join(t.TempDir(), "log")
	t.Cleanup(func() { logSocket = "/dev/log" })
	logInvocation(meta{fqcn: "x"}, values{}) // nobody listens
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: logSocket, Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	for range 5000 { // more than any receive buffer holds
		logInvocation(meta{fqcn: "x"}, values{})
	}
}
