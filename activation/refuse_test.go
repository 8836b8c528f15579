// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lastgood/lastgood/activation"
)

// Everything that can be known before the first change is refused, in
// preflight and in the activation alike, and leaves the host as it was.
func TestRefusals(t *testing.T) {
	cases := []struct {
		name  string
		kind  activation.Kind
		words string // of the message
		set   func(b *bed, w *activation.Want)
	}{
		{"a folder where a slot belongs", activation.KindLayoutConflict, "is a folder", func(b *bed, _ *activation.Want) {
			require.NoError(b.t, os.Mkdir(b.layout.Green, 0o755))
		}},
		{"a FIFO where a link belongs", activation.KindLayoutConflict, "is a FIFO", func(b *bed, _ *activation.Want) {
			require.NoError(b.t, unix.Mkfifo(b.layout.Current, 0o600))
		}},
		{"a file where a link belongs", activation.KindLayoutConflict, "is a file", func(b *bed, _ *activation.Want) {
			b.write("daemon-last-good", "0.9", "ok")
		}},
		{"a link where a slot belongs", activation.KindLayoutConflict, "symbolic link", func(b *bed, _ *activation.Want) {
			b.link("daemon-blue", b.path("elsewhere"))
		}},
		{"a loop", activation.KindLayoutAlias, "loop", func(b *bed, _ *activation.Want) {
			b.link("daemon-current", "daemon-last-good")
			b.link("daemon-last-good", "daemon-current")
		}},
		{"two roles at one path", activation.KindLayoutAlias, "same path", func(_ *bed, w *activation.Want) {
			w.Layout.Green = w.Layout.Blue
		}},
		{"one file as both slots", activation.KindLayoutAlias, "hard links", func(b *bed, _ *activation.Want) {
			b.write("daemon-blue", "1.0", "ok")
			require.NoError(b.t, os.Link(b.layout.Blue, b.layout.Green))
		}},
		{"an interrupted activation without last-good", activation.KindPendingUnresolved, "nothing is known to work", func(b *bed, _ *activation.Want) {
			_, err := b.activate(b.want(activation.Adopted))
			require.NoError(b.t, err)
			require.NoError(b.t, os.Remove(b.layout.LastGood))
			require.NoError(b.t, os.WriteFile(b.path("state/"+stateName(b)+"/pending.json"), []byte("{}"), 0o600))
		}},
		{"a relative path", activation.KindInvalidArgs, "absolute", func(_ *bed, w *activation.Want) {
			w.Layout.Path = "daemon"
		}},
		{"a folder that anyone may write", activation.KindUnsafePath, "anyone", func(b *bed, _ *activation.Want) {
			require.NoError(b.t, os.Chmod(b.dir, 0o777))
		}},
		{"an executable that anyone may write", activation.KindUnsafePath, "anyone", func(b *bed, _ *activation.Want) {
			require.NoError(b.t, os.Chmod(b.layout.Path, 0o777))
		}},
		{"no such slot folder's parent", activation.KindLayoutConflict, "does not exist", func(b *bed, w *activation.Want) {
			*w = withSlots(*w, b.path("none/none"))
		}},
		{"a masked unit", activation.KindUnitMasked, "masked", func(b *bed, _ *activation.Want) {
			b.daemon.unit.LoadState = "masked"
		}},
		{"no unit", activation.KindUnitNotFound, "no unit", func(b *bed, _ *activation.Want) {
			b.daemon.unit.LoadState = "not-found"
		}},
		{"a unit that runs something else", activation.KindUnitEntrypoint, "/opt/other", func(b *bed, _ *activation.Want) {
			b.daemon.unit.ExecStart = [][]string{{"/opt/other/daemon"}}
		}},
		{"the wrong checksum", activation.KindChecksumMismatch, "not " + strings.Repeat("0", 64), func(_ *bed, w *activation.Want) {
			w.Checksum = strings.Repeat("0", 64)
		}},
		{"a checksum that no slot holds", activation.KindCandidateMissing, "no slot", func(_ *bed, w *activation.Want) {
			w.Candidate, w.Checksum = nil, strings.Repeat("0", 64)
		}},
		{"the wrong version", activation.KindVersionMismatch, "2.0", func(_ *bed, w *activation.Want) {
			w.Version = "2.1"
		}},
		{"a part of the version", activation.KindVersionMismatch, "2.0", func(_ *bed, w *activation.Want) {
			w.Version = "2"
		}},
		{"a version command that hangs", activation.KindVersionTimeout, "did not end", func(b *bed, w *activation.Want) {
			b.replace(w, "version-hang")
			w.VersionTimeout = 100 * time.Millisecond
		}},
		{"a version command that floods", activation.KindVersionFailed, "printed more", func(b *bed, w *activation.Want) {
			b.replace(w, "version-flood")
		}},
		{"a version command that is killed", activation.KindVersionFailed, "killed", func(b *bed, w *activation.Want) {
			b.replace(w, "version-signal")
		}},
		{"a version command that fails", activation.KindVersionFailed, "exit code", func(b *bed, w *activation.Want) {
			b.replace(w, "version-fail")
			w.Version = "2.0"
		}},
		{"another architecture", activation.KindWrongArchitecture, "built for", func(b *bed, w *activation.Want) {
			b.content(w, func(elf []byte) []byte { elf[18] = 243; return elf })
		}},
		{"a truncated file", activation.KindNotExecutable, "truncated", func(b *bed, w *activation.Want) {
			b.content(w, func(elf []byte) []byte { return elf[:5000] })
		}},
		{"an empty file", activation.KindNotExecutable, "empty", func(b *bed, w *activation.Want) {
			b.content(w, func([]byte) []byte { return nil })
		}},
		{"a macOS executable", activation.KindNotExecutable, "macOS", func(b *bed, w *activation.Want) {
			b.content(w, func([]byte) []byte { return []byte("\xcf\xfa\xed\xfe and more") })
		}},
		{"a Windows executable", activation.KindNotExecutable, "Windows", func(b *bed, w *activation.Want) {
			b.content(w, func([]byte) []byte { return []byte("MZ and more") })
		}},
		{"a script without its interpreter", activation.KindMissingInterpreter, "/no/such/sh", func(b *bed, w *activation.Want) {
			b.content(w, func([]byte) []byte { return []byte("#!/no/such/sh\n") })
		}},
		{"the live file itself", activation.KindCandidateInPlace, "active file", func(b *bed, w *activation.Want) {
			c, err := activation.OpenCandidate(b.layout.Path)
			require.NoError(b.t, err)
			w.Candidate = c
		}},
		{"nothing to go back to", activation.KindLayoutConflict, "nothing to go back to", func(_ *bed, w *activation.Want) {
			w.State, w.Candidate = activation.RolledBack, nil
		}},
		{"nothing to adopt", activation.KindLayoutConflict, "no executable to adopt", func(b *bed, w *activation.Want) {
			require.NoError(b.t, os.Remove(b.layout.Path))
			w.State, w.Candidate = activation.Adopted, nil
		}},
		{"two slots and no link", activation.KindLayoutConflict, "no link tells", func(b *bed, _ *activation.Want) {
			require.NoError(b.t, os.Remove(b.layout.Path))
			b.write("daemon-blue", "1.0", "ok")
			b.write("daemon-green", "0.9", "ok")
		}},
		{"a mode that nobody can run", activation.KindInvalidArgs, "nobody", func(_ *bed, w *activation.Want) {
			mode := os.FileMode(0o644)
			w.Mode = &mode
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.write("daemon", "1.0", "ok")
			w := b.candidate("2.0", "ok")
			c.set(b, &w)
			before := snapshot(t, b.dir)
			r, err := b.preflight(w)
			assert.Equal(t, c.kind, kindOf(t, err))
			require.ErrorContains(t, err, c.words)
			assert.Equal(t, activation.OutcomeRefused, r.Outcome)
			assert.False(t, r.Changed)
			r, err = b.activate(w)
			assert.Equal(t, c.kind, kindOf(t, err))
			assert.Equal(t, activation.OutcomeRefused, r.Outcome)
			assert.Equal(t, before, snapshot(t, b.dir))
		})
	}
}

func withSlots(w activation.Want, dir string) activation.Want {
	w.Layout = activation.DefaultLayout(w.Layout.Path, dir)
	return w
}

// replace makes the candidate one of another behaviour.
func (b *bed) replace(w *activation.Want, behaviour string) {
	b.t.Helper()
	w.Candidate = b.candidate("2.0", behaviour).Candidate
}

// content makes the candidate a file of other content.
func (b *bed) content(w *activation.Want, change func(elf []byte) []byte) {
	b.t.Helper()
	elf, err := os.ReadFile(daemonBase)
	require.NoError(b.t, err)
	path := b.path("candidate-changed")
	require.NoError(b.t, os.WriteFile(path, change(elf), 0o755))
	c, err := activation.OpenCandidate(path)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	w.Candidate = c
}

func TestOpenCandidate(t *testing.T) {
	dir := t.TempDir()
	_, err := activation.OpenCandidate(filepath.Join(dir, "none"))
	assert.Equal(t, activation.KindCandidateMissing, kindOf(t, err))
	_, err = activation.OpenCandidate(dir)
	assert.Equal(t, activation.KindNotExecutable, kindOf(t, err))
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	_, err = activation.OpenCandidate(fifo)
	assert.Equal(t, activation.KindNotExecutable, kindOf(t, err))
}

// I3: the candidate's name means nothing once it is opened.
func TestTheCandidateIsPinned(t *testing.T) {
	b := legacy(t)
	w := b.candidate("2.0", "ok")
	require.NoError(t, os.Remove(b.path("candidate-2.0")))
	b.write("candidate-2.0", "6.6.6", "ok")
	b.run(w)
	assert.Equal(t, "2.0", b.runs())
}

// I3: a candidate that changes after it was checked is not installed.
func TestTheCandidateIsVerifiedAsItIsCopied(t *testing.T) {
	b := legacy(t)
	w := b.candidate("2.0", "ok")
	b.host = &tampering{Host: b.host, path: b.path("candidate-2.0")}
	r, err := b.activate(w)
	assert.Equal(t, activation.KindChangedUnderfoot, kindOf(t, err))
	assert.Equal(t, activation.OutcomeFailedUnchanged, r.Outcome)
	assert.Equal(t, "1.0", b.names()["path"])
	assert.Empty(t, leftovers(t, b.dir))
}

// tampering writes to the candidate just before it is copied.
type tampering struct {
	activation.Host
	path string
}

func (h *tampering) Copy(dst, src *os.File) (string, int64, error) {
	f, err := os.OpenFile(h.path, os.O_WRONLY, 0)
	if err != nil {
		return "", 0, err
	}
	if _, err := f.WriteAt([]byte("tampered"), 100_000); err != nil {
		return "", 0, err
	}
	if err := f.Close(); err != nil {
		return "", 0, err
	}
	return h.Host.Copy(dst, src)
}

func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".*.lastgood-*"))
	require.NoError(t, err)
	return found
}

// What a killed run left is removed, and nothing else.
func TestLeftoversAreSwept(t *testing.T) {
	b := legacy(t)
	b.run(b.want(activation.Adopted))
	left := b.path(".daemon-green.lastgood-00c0ffee")
	require.NoError(t, os.WriteFile(left, []byte("half a fi"), 0o600))
	foreign := b.path(".daemon-green.swp")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	b.run(b.want(activation.Adopted))
	assert.NoFileExists(t, left)
	assert.FileExists(t, foreign)
}

// Mode, owner and group are those of the replaced executable, whatever the
// umask, unless they are asked for.
func TestAttributesAreCarriedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	old := unix.Umask(0o777)
	defer unix.Umask(old)
	b := newBed(t)
	b.write("daemon", "1.0", "ok")
	require.NoError(t, os.Chown(b.layout.Path, 0, 1))
	require.NoError(t, os.Chmod(b.layout.Path, 0o750))
	const caps = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" // cap_net_bind_service=ep
	require.NoError(t, unix.Setxattr(b.layout.Path, "security.capability", []byte(caps), 0))

	r := b.run(b.candidate("2.0", "ok"))
	assert.Equal(t, "0750", r.After.Mode)
	info, err := os.Stat(b.layout.Path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o750), info.Mode())
	got := make([]byte, 64)
	n, err := unix.Getxattr(b.layout.Path, "security.capability", got)
	require.NoError(t, err)
	assert.Equal(t, caps, string(got[:n]))

	w := b.candidate("2.0", "ok")
	mode := os.FileMode(0o711)
	w.Mode = &mode
	r = b.run(w)
	assert.Equal(t, activation.OutcomeRepaired, r.Outcome)
	assert.Equal(t, "0711", r.After.Mode)
}

// The version command runs bounded: a child that it leaves behind is ended.
func TestAVersionCommandThatForks(t *testing.T) {
	b := newBed(t)
	b.write("daemon", "1.0", "ok")
	w := b.candidate("2.0", "version-fork")
	w.VersionTimeout = 20 * time.Second
	begin := time.Now()
	r, err := activation.Preflight(context.Background(), b.host, b.daemon, w)
	require.NoError(t, err)
	assert.Equal(t, "2.0", r.Candidate.Version)
	assert.Less(t, time.Since(begin), w.VersionTimeout, "it waited for the child")
}
