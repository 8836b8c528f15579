// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// wantOf takes arguments the whole way to a Want.
func wantOf(t *testing.T, raw string) (activation.Want, error) {
	t.Helper()
	given, err := parseObject([]byte(raw))
	require.NoError(t, err)
	v, err := checkArguments(daemonBinary, meta{}, given)
	require.NoError(t, err)
	return buildFullWant(v)
}

func TestWantHasTheLibrarysDefaults(t *testing.T) {
	got, err := wantOf(t, `{"path":"/usr/local/bin/foo","state":"adopted"}`)
	require.NoError(t, err)
	assert.Equal(t, activation.NewWant("/usr/local/bin/foo", activation.Adopted), got)
}

func TestWantTakesEverything(t *testing.T) {
	got, err := wantOf(t, `{"path":"/usr/local//bin/foo","src":"/tmp/foo","checksum":"SHA256:`+strings.Repeat("AB", 32)+`",
		"unit":"foo.bar","version":"2.0","version_args":["-V"],"version_timeout":0.5,"owner":"0","group":0,"mode":"0750",
		"slot_dir":"/opt/foo","layout":{"green":"/opt/other/foo"},"lock_path":"/run/l","lock_timeout":"2","signal_path":"/etc/s",
		"state_dir":"/var/lib/x","restart":"never","rollback":"no","force":"yes",
		"health":{"stable_for":1,"timeout":"2","tcp":"[::1]:80","command":["/bin/true"]}}`)
	require.NoError(t, err)
	root, mode := 0, fs.FileMode(0o750)
	want := activation.NewWant("/usr/local/bin/foo", activation.Present)
	want.Layout = activation.DefaultLayout("/usr/local/bin/foo", "/opt/foo")
	want.Layout.Green = "/opt/other/foo"
	want.Unit, want.Checksum = "foo.bar.service", strings.Repeat("ab", 32)
	want.Version, want.VersionArgs, want.VersionTimeout = "2.0", []string{"-V"}, time.Second/2
	want.Owner, want.Group, want.Mode = &root, &root, &mode
	want.LockPath, want.LockTimeout, want.SignalPath, want.StateDir = "/run/l", 2*time.Second, "/etc/s", "/var/lib/x"
	want.Restart, want.Rollback, want.Force = activation.RestartNever, false, true
	want.Health = activation.Health{StableFor: time.Second, Timeout: 2 * time.Second, TCP: "[::1]:80", Command: []string{"/bin/true"}}
	assert.Equal(t, want, got)
}

func TestGoingBackIgnoresTheCandidate(t *testing.T) {
	got, err := wantOf(t, `{"path":"/a","state":"rolled_back","src":"/b","checksum":"nonsense","version":"2"}`)
	require.NoError(t, err)
	assert.Equal(t, activation.NewWant("/a", activation.RolledBack), got)
}

func TestEmptyVersionArgsTurnTheVersionCommandOff(t *testing.T) {
	for _, args := range []string{`""`, `[]`, `"[]"`, `[""]`} {
		got, err := wantOf(t, `{"path":"/a","src":"/b","version_args":`+args+`}`)
		require.NoError(t, err)
		assert.Empty(t, got.VersionArgs, args)
	}
}

func TestRefusedArguments(t *testing.T) {
	tests := []struct{ extra, want string }{
		{`"path":"foo"`, "path must be an absolute path, and 'foo' is not"},
		{`"path":""`, "path must be an absolute path, and '' is not"},
		{`"path":"/a/../b"`, "path must not hold '..': '/a/../b'"},
		{`"path":"/a\u0000b"`, `path holds a control character: "/a\x00b"`},
		{`"path":"/a\nb"`, `path holds a control character: "/a\nb"`},
		{`"path":"/a\udc80b"`, "path holds bytes that are not UTF-8"},
		{`"path":"/a","slot_dir":"x"`, "slot_dir must be an absolute path"},
		{`"path":"/a","layout":{"blue":"x"}`, "layout.blue must be an absolute path"},
		{`"path":"/a","unit":"foo.socket"`, "unit must be a service"},
		{`"path":"/a","unit":"a b"`, "unit 'a b' is no name that systemd takes"},
		{`"path":"/a","unit":"../x"`, "unit '../x' is no name that systemd takes"},
		{`"path":"/a","unit":"foo@"`, "unit 'foo@.service' is a template"},
		{`"path":"/a","version":"a b"`, "version must be one word"},
		{`"path":"/a","version":"1","version_args":[]`, "version '1' can't be checked"},
		{`"path":"/a","version_timeout":0`, "version_timeout must be from 0.001 to 86400 seconds, and 0 is not"},
		{`"path":"/a","lock_timeout":-1`, "lock_timeout must be from 0 to 86400 seconds, and -1 is not"},
		{`"path":"/a","lock_timeout":1e300`, "lock_timeout must be from 0 to 86400 seconds"},
		{`"path":"/a","health":{"stable_for":0}`, "health.stable_for must be from 0.001"},
		{`"path":"/a","health":{"tcp":"8080"}`, "health.tcp must be host:port"},
		{`"path":"/a","health":{"tcp":"a:http"}`, "health.tcp must be host:port"},
		{`"path":"/a","health":{"tcp":"a:0"}`, "health.tcp must be host:port"},
		{`"path":"/a","owner":"no-such-user-here"`, "owner 'no-such-user-here' is not known on this host"},
		{`"path":"/a","group":"no-such-group-here"`, "group 'no-such-group-here' is not known on this host"},
		{`"path":"/a","owner":"-1"`, "owner '-1' is no usable id"},
		{`"path":"/a","checksum":"abc"`, "checksum 'abc' is 3 characters long, and a SHA-256 has 64 hex digits"},
		{`"path":"/a","checksum":"sha1:abc"`, "checksum must be a SHA-256, and 'sha1:abc' names sha1"},
		{`"path":"/a","checksum":"` + strings.Repeat("g", 64) + `"`, "is not hex"},
	}
	for _, test := range tests {
		t.Run(test.extra, func(t *testing.T) {
			_, err := wantOf(t, `{"src":"/b",`+test.extra+`}`)
			require.ErrorContains(t, err, test.want)
			assert.Equal(t, activation.KindInvalidArgs, asError(err).Kind)
		})
	}
}

func TestMode(t *testing.T) {
	tests := []struct {
		mode any
		want fs.FileMode
		err  string
	}{
		{mode: "0755", want: 0o755},
		{mode: "755", want: 0o755},
		{mode: " 0o755 ", want: 0o755},
		{mode: 493.0, want: 0o755}, // YAML read 0755
		{mode: 448.0, want: 0o700}, // YAML read 0700
		{mode: "4755", want: 0o755 | fs.ModeSetuid},
		{mode: "2755", want: 0o755 | fs.ModeSetgid},
		{mode: "u=rwx,g=rx,o=rx", want: 0o755},
		{mode: "a=rx", want: 0o555},
		{mode: "u=rwx,go=", want: 0o700},
		{mode: 755.0, err: "mode 755 is a decimal number"},
		{mode: 1.5, err: "mode 1.5 is a decimal number"},
		{mode: -1.0, err: "mode -1 is a decimal number"},
		{mode: "0644", err: "mode 0644 would make the executable one that nobody can run"},
		{mode: "17777", err: "has more than permission bits"},
		{mode: "rwx", err: "mode must be in octal or symbolic form"},
		{mode: "0888", err: "mode must be in octal or symbolic form"},
		{mode: "", err: "mode must be in octal or symbolic form"},
		{mode: "preserve", err: "mode must be in octal or symbolic form"},
		{mode: "u+x", err: "mode must be in octal or symbolic form"},
		{mode: "u=rwx,g=rx", err: "a symbolic mode must set r, w and x of u, g and o once each"},
		{mode: "u=rwx,u=rx,g=,o=", err: "once each"},
		{mode: "u=rwX,g=,o=", err: "once each"},
		{mode: "=rwx", err: "once each"},
	}
	for _, test := range tests {
		mode, err := parseMode(test.mode)
		if test.err != "" {
			require.ErrorContains(t, err, test.err, "%v", test.mode)
			continue
		}
		require.NoError(t, err, "%v", test.mode)
		assert.Equal(t, test.want, *mode, "%v", test.mode)
	}
	mode, err := parseMode(nil)
	require.NoError(t, err)
	assert.Nil(t, mode)
}
