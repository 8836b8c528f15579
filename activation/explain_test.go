// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// decisions are those of a preflight, with what differs from run to run taken
// out. An activation explains itself in the same words.
func (b *bed) decisions(w activation.Want) []string {
	b.t.Helper()
	r, _ := b.preflight(w) // a refused one explains itself too
	var all []string
	for _, s := range r.Decisions {
		s = strings.ReplaceAll(s, b.dir+"/", "")
		s = regexp.MustCompile(`\b[0-9a-f]{12}\b`).ReplaceAllString(s, "DIGEST")
		s = regexp.MustCompile(`owner \d+:\d+`).ReplaceAllString(s, "owner UID:GID")
		all = append(all, regexp.MustCompile(`process \d+`).ReplaceAllString(s, "process PID"))
	}
	return all
}

func TestDecisionsOfAnUpgrade(t *testing.T) {
	b := legacy(t)
	w := b.candidate("2.0", "ok")
	w.LockPath = activation.DefaultLockPath(b.layout.Path)
	assert.Equal(t, []string{
		"the host is legacy, and active is 1.0 (sha256 DIGEST) in daemon: daemon leads to it",
		"unit supervised is active (running); process PID runs sha256 DIGEST from daemon, which is what is active",
		"nobody holds the lock /run/daemon-upgrade.lock, and no signal is looked for",
		"derived from path: daemon-blue, daemon-green, daemon-current, daemon-last-good, /run/daemon-upgrade.lock",
		"what is active is in no slot: it is adopted into blue",
		"the candidate is sha256 DIGEST, and what is active is sha256 DIGEST",
		"this host has no record of running the candidate",
		"the green slot is free: blue is active",
		"last-good is to be blue: the unit runs what is active",
		"owner UID:GID and mode 0755 are those of the executable that it replaces",
		"a restart is planned: to run sha256 DIGEST",
		"a failure is rolled back to last-good, sha256 DIGEST in daemon-blue",
	}, b.decisions(w))
}

// What is explained is what is done: an activation has the preflight's words.
func TestAnActivationExplainsItself(t *testing.T) {
	b := legacy(t)
	w := b.candidate("2.0", "ok")
	foreseen, err := b.preflight(w)
	require.NoError(t, err)
	done, err := b.activate(w)
	require.NoError(t, err)
	assert.Equal(t, foreseen.Decisions, done.Decisions)
}

func TestDecisions(t *testing.T) {
	mode := fs.FileMode(0o755)
	tests := []struct {
		name string
		make func(b *bed) activation.Want // from a host that was upgraded to 2.0
		want string
	}{
		{"the same again", func(b *bed) activation.Want { return b.candidate("2.0", "ok") },
			"the candidate, sha256 DIGEST, is what is active: nothing is installed"},
		{"no restart", func(b *bed) activation.Want { return b.candidate("2.0", "ok") },
			"no restart is planned: the unit runs that executable already"},
		{"stopped", func(b *bed) activation.Want {
			b.daemon.stop()
			return b.candidate("3.0", "ok")
		}, "no restart is planned: the unit is stopped, and stays so"},
		{"never", func(b *bed) activation.Want {
			w := b.candidate("3.0", "ok")
			w.Restart = activation.RestartNever
			return w
		}, "no restart is planned: restart: never"},
		{"always", func(b *bed) activation.Want {
			w := b.candidate("2.0", "ok")
			w.Restart = activation.RestartAlways
			return w
		}, "a restart is planned: restart: always"},
		{"files only", func(b *bed) activation.Want {
			w := b.candidate("3.0", "ok")
			w.Unit = ""
			return w
		}, "no unit is given: only files are managed"},
		{"in the slot", func(b *bed) activation.Want { return b.candidate("1.0", "ok") },
			"the blue slot holds the candidate already: it is not copied"},
		{"healthy before", func(b *bed) activation.Want {
			b.run(b.candidate("3.0", "ok"))
			return b.candidate("2.0", "ok")
		}, "this host has recorded the candidate as healthy before"},
		{"rejected", func(b *bed) activation.Want {
			_, err := b.activate(b.candidate("3.0", "crash:0s"))
			require.Error(b.t, err)
			return b.candidate("3.0", "crash:0s")
		}, "this host has recorded the candidate as rejected before"},
		{"force", func(b *bed) activation.Want {
			_, err := b.activate(b.candidate("3.0", "crash:0s"))
			require.Error(b.t, err)
			w := b.candidate("3.0", "crash:0s")
			w.Force = true
			return w
		}, "this host has rejected the candidate before, and force tries it again"},
		{"no rollback", func(b *bed) activation.Want {
			w := b.candidate("3.0", "ok")
			w.Rollback = false
			return w
		}, "a failure is not rolled back: rollback is switched off"},
		{"mode", func(b *bed) activation.Want {
			w := b.candidate("3.0", "ok")
			w.Mode = &mode
			return w
		}, "owner UID:GID and mode 0755 are as asked for, and else those of the executable that it replaces"},
		{"unproven", func(b *bed) activation.Want {
			w := b.candidate("3.0", "ok")
			w.Restart = activation.RestartNever
			b.run(w)
			return b.candidate("4.0", "ok")
		}, "the active blue slot is given up for the candidate: the unit runs another executable than the active one, and green is last-good"},
		{"a dangling path", func(b *bed) activation.Want {
			b.remove("daemon")
			return b.candidate("3.0", "ok")
		}, "the host is legacy, and active is 2.0 (sha256 DIGEST) in daemon-green: daemon-current leads to it, and daemon does not lead to an executable"},
		{"lone slot", func(b *bed) activation.Want {
			for _, name := range []string{"daemon", "daemon-current", "daemon-last-good", "daemon-blue"} {
				b.remove(name)
			}
			return b.candidate("3.0", "ok")
		}, "the host is legacy, and active is 2.0 (sha256 DIGEST) in daemon-green: no link leads to an executable, and this is the only slot that holds one"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := upgraded(t)
			assert.Contains(t, b.decisions(test.make(b)), test.want)
		})
	}
}

func TestDecisionsOnAFreshHost(t *testing.T) {
	b := newBed(t)
	found := b.decisions(b.candidate("1.0", "ok"))
	assert.Contains(t, found, "the host is fresh: no name leads to an executable")
	assert.Contains(t, found, "the candidate is sha256 DIGEST, and nothing is active")
	assert.Contains(t, found, "owner UID:GID and mode 0755 are the default")
	assert.Contains(t, found, "no restart is planned: the unit is stopped, and stays so")
}
