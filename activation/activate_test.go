// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

func itoa(n int) string { return strconv.Itoa(n) }

func kindOf(t *testing.T, err error) activation.Kind {
	t.Helper()
	e := (*activation.Error)(nil)
	require.ErrorAs(t, err, &e)
	assert.NotEmpty(t, e.Detail)
	return e.Kind
}

// snapshot is everything about a folder that a look could change.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		link, _ := os.Readlink(path)
		fmt.Fprintln(&b, path, st.Ino, info.Mode(), st.Nlink, st.Uid, st.Gid, st.Size, st.Mtim, st.Ctim, link)
		return nil
	}))
	return b.String()
}

func plan(t *testing.T, r activation.Result) string {
	t.Helper()
	raw, err := json.MarshalIndent(r.Plan, "", " ")
	require.NoError(t, err)
	return string(raw)
}

// run does what a careful user does: a preflight, the activation, and both
// again. It proves I4 (a preflight changes nothing), I5 (one planner) and I6 (a
// second run changes nothing) on the way.
func (b *bed) run(w activation.Want) activation.Result {
	b.t.Helper()
	before := snapshot(b.t, b.dir)
	pid := b.pid()
	foreseen, err := b.preflight(w)
	require.NoError(b.t, err)
	require.Equal(b.t, before, snapshot(b.t, b.dir), "I4: preflight changed the host")
	require.Equal(b.t, pid, b.pid(), "I4: preflight restarted the daemon")

	result, err := b.activate(w)
	require.NoError(b.t, err)
	assert.Equal(b.t, plan(b.t, foreseen), plan(b.t, result), "I5")
	assert.Equal(b.t, foreseen.Outcome, result.Outcome, "I5")
	assert.Equal(b.t, foreseen.Changed, result.Changed, "I5")
	b.foresaw(foreseen.After, result.After)

	after := snapshot(b.t, b.dir)
	pid = b.pid()
	again, err := b.activate(w)
	require.NoError(b.t, err)
	assert.Empty(b.t, again.Plan, "I6: a second run has something to do")
	assert.Equal(b.t, activation.OutcomeUnchanged, again.Outcome, "I6")
	assert.False(b.t, again.Changed, "I6")
	assert.Equal(b.t, after, snapshot(b.t, b.dir), "I6")
	assert.Equal(b.t, pid, b.pid(), "I6: a second run restarted the daemon")
	return result
}

// foresaw compares what was predicted, leaving out what can't be.
func (b *bed) foresaw(foreseen, seen activation.Facts) {
	b.t.Helper()
	if foreseen.Unit != nil && seen.Unit != nil {
		assert.Equal(b.t, foreseen.Unit.ActiveState, seen.Unit.ActiveState, "predicted unit")
		assert.Equal(b.t, foreseen.Unit.RunningSHA256, seen.Unit.RunningSHA256, "predicted process")
	}
	foreseen.Unit, seen.Unit = nil, nil
	assert.Equal(b.t, foreseen, seen, "predicted facts")
}

func (b *bed) pid() int {
	u, err := b.daemon.Inspect(context.Background())
	require.NoError(b.t, err)
	return u.MainPID
}

func TestAdoptKeepsWhatRuns(t *testing.T) {
	b := legacy(t)
	pid := b.pid()
	r := b.run(b.want(activation.Adopted))
	assert.Equal(t, activation.OutcomeAdopted, r.Outcome)
	assert.Equal(t, pid, b.pid())
	assert.Equal(t, map[string]string{"path": "1.0", "blue": "1.0", "green": "", "current": "1.0", "last-good": "1.0"}, b.names())
	assert.True(t, r.After.Managed)
}

func TestUpgradesAlternateBetweenSlots(t *testing.T) {
	b := legacy(t)
	for i, version := range []string{"2.0", "3.0", "4.0", "3.1"} {
		old := b.runs()
		r := b.run(b.candidate(version, "ok"))
		assert.Equal(t, activation.OutcomeActivated, r.Outcome)
		assert.Equal(t, version, b.runs())
		slot := []string{"green", "blue"}[i%2]
		assert.Equal(t, slot, r.After.ActiveSlot)
		names := b.names()
		assert.Equal(t, version, names["path"])
		assert.Equal(t, version, names["current"])
		assert.Equal(t, old, names["last-good"], "I2")
	}
	r := b.run(b.want(activation.RolledBack))
	assert.Equal(t, activation.OutcomeRolledBack, r.Outcome)
	assert.Equal(t, "4.0", b.runs())
}

func TestAFreshHost(t *testing.T) {
	b := newBed(t)
	r := b.run(b.candidate("1.0", "ok"))
	assert.Equal(t, activation.OutcomeActivated, r.Outcome)
	assert.Equal(t, map[string]string{"path": "1.0", "blue": "1.0", "green": "", "current": "1.0", "last-good": "1.0"}, b.names())
	assert.Zero(t, b.pid(), "I10: it started what was not running")
}

// The shapes in which hosts are found. What runs keeps running, and each ends
// managed.
func TestTheLegacyMatrix(t *testing.T) {
	shapes := map[string]func(b *bed){
		"plain file": func(b *bed) {
			b.write("daemon", "1.0", "ok")
		},
		"current is a link to the plain file": func(b *bed) {
			b.write("daemon", "1.0", "ok")
			b.link("daemon-current", b.layout.Path)
		},
		"dangling current, good last-good": func(b *bed) {
			b.write("daemon-green", "1.0", "ok")
			b.link("daemon-current", b.path("daemon-blue"))
			b.link("daemon-last-good", b.path("daemon-green"))
			b.link("daemon", b.layout.Current)
		},
		"only a slot": func(b *bed) {
			b.write("daemon-blue", "1.0", "ok")
		},
		"last-good missing": func(b *bed) {
			b.write("daemon-blue", "1.0", "ok")
			b.link("daemon-current", b.path("daemon-blue"))
			b.link("daemon", b.layout.Current)
		},
		"relative links": func(b *bed) {
			b.write("daemon-green", "1.0", "ok")
			b.link("daemon-current", "daemon-green")
			b.link("daemon-last-good", "daemon-green")
			b.link("daemon", "daemon-current")
		},
		"path is a link to a file elsewhere": func(b *bed) {
			require.NoError(b.t, os.Mkdir(b.path("versions"), 0o755))
			b.write("versions/daemon-1.0", "1.0", "ok")
			b.link("daemon", b.path("versions/daemon-1.0"))
		},
		"an old copy in a slot": func(b *bed) {
			b.write("daemon", "1.0", "ok")
			b.write("daemon-blue", "0.9", "ok")
		},
	}
	for name, shape := range shapes {
		for _, state := range []activation.State{activation.Adopted, activation.Present} {
			t.Run(name+", "+string(state), func(t *testing.T) {
				b := newBed(t)
				shape(b)
				starts := b.layout.Path
				if _, err := os.Stat(starts); err == nil {
					require.NoError(t, b.daemon.start())
				}
				pid := b.pid()
				want := b.want(activation.Adopted)
				if state == activation.Present {
					want = b.candidate("2.0", "ok")
				}
				r := b.run(want)
				assert.True(t, r.After.Managed)
				names := b.names()
				assert.Equal(t, "1.0", names["last-good"])
				if state == activation.Adopted {
					assert.Equal(t, "1.0", names["path"])
					assert.Equal(t, pid, b.pid(), "adoption restarted the daemon")
					return
				}
				assert.Equal(t, "2.0", names["path"])
				if pid != 0 {
					assert.Equal(t, "2.0", b.runs())
				}
			})
		}
	}
}

// I7: whatever the candidate does, the old version runs at the end, healthy.
func TestUnhealthyCandidatesAreRolledBack(t *testing.T) {
	for _, behaviour := range []string{"crash:0s", "crash:60ms", "exit0:0s", "exit0:100ms"} {
		t.Run(behaviour, func(t *testing.T) {
			b := legacy(t)
			b.run(b.candidate("2.0", "ok"))
			w := b.candidate("3.0", behaviour)
			w.Health.StableFor = 300 * time.Millisecond
			r, err := b.activate(w)
			assert.Equal(t, activation.KindUnhealthy, kindOf(t, err))
			assert.Equal(t, activation.OutcomeFailedRolledBack, r.Outcome)
			assert.Equal(t, "2.0", b.runs())
			require.NotNil(t, r.Rollback)
			assert.True(t, r.Rollback.Attempted && r.Rollback.Succeeded)
			assert.Equal(t, "2.0", b.names()["path"])
			assert.Equal(t, "2.0", b.names()["last-good"])

			_, err = b.activate(w)
			assert.Equal(t, activation.KindRejected, kindOf(t, err))
			w.Force = true
			_, err = b.activate(w)
			assert.Equal(t, activation.KindUnhealthy, kindOf(t, err), "force tries it again")
			assert.Equal(t, "2.0", b.runs())
		})
	}
}

// A daemon that nobody can reach is rolled back without a crash.
func TestATCPProbeThatIsNeverAnswered(t *testing.T) {
	b := legacy(t)
	w := b.candidate("2.0", "ok")
	w.Health.TCP, w.Health.Timeout = "127.0.0.1:1", 200*time.Millisecond
	r, err := b.activate(w)
	assert.Equal(t, activation.KindRollbackFailed, kindOf(t, err), "the old version can't answer there either")
	assert.Equal(t, activation.OutcomeFailedDirty, r.Outcome)
	assert.NotEmpty(t, r.Rollback.Error, "I7: both errors")
	assert.Equal(t, "1.0", b.runs())
}

// I8: the marker that a killed run left is settled before anything else.
func TestAPendingActivationIsSettled(t *testing.T) {
	b := legacy(t)
	b.run(b.candidate("2.0", "ok"))
	w := b.candidate("3.0", "crash:0s")
	b.host = &failing{Host: activation.NewHost(), fail: func(call, name string) error {
		if call == "Unlink" && name == "pending.json" {
			return syscall.EIO
		}
		return nil
	}}
	r, err := b.activate(w)
	require.Error(t, err)
	assert.Equal(t, activation.OutcomeFailedRolledBack, r.Outcome)
	assert.FileExists(t, filepath.Join(b.dir, "state", stateName(b), "pending.json"))
	assert.Equal(t, "2.0", b.runs())

	b.host = activation.NewHost()
	r = b.run(b.candidate("4.0", "ok"))
	assert.Equal(t, activation.OutcomeActivated, r.Outcome)
	assert.Equal(t, "4.0", b.runs())
	assert.NoFileExists(t, filepath.Join(b.dir, "state", stateName(b), "pending.json"))
}

func stateName(b *bed) string {
	entries, err := os.ReadDir(b.path("state"))
	require.NoError(b.t, err)
	require.Len(b.t, entries, 1)
	return entries[0].Name()
}

// failing is a real host one of whose calls fails.
type failing struct {
	activation.Host
	fail func(call, name string) error
}

func (f *failing) Unlink(folder *os.File, name string) error {
	if err := f.fail("Unlink", name); err != nil {
		return err
	}
	return f.Host.Unlink(folder, name)
}

func (f *failing) Rename(folder *os.File, from, to string) error {
	if err := f.fail("Rename", to); err != nil {
		return err
	}
	return f.Host.Rename(folder, from, to)
}

// An activation that can't switch leaves the daemon alone.
func TestAFailedSwitchChangesNothingThatRuns(t *testing.T) {
	for _, name := range []string{"daemon-current", "daemon-green", "pending.json"} {
		t.Run(name, func(t *testing.T) {
			b := legacy(t)
			b.run(b.want(activation.Adopted))
			pid := b.pid()
			b.host = &failing{Host: activation.NewHost(), fail: func(call, to string) error {
				if call == "Rename" && to == name {
					return syscall.ENOSPC
				}
				return nil
			}}
			w := b.candidate("2.0", "ok")
			r, err := b.activate(w)
			assert.Equal(t, activation.KindNoSpace, kindOf(t, err))
			assert.Equal(t, activation.OutcomeFailedUnchanged, r.Outcome)
			assert.Equal(t, pid, b.pid())
			assert.Equal(t, "1.0", b.names()["path"])
			b.host = activation.NewHost()
			b.run(w)
			assert.Equal(t, "2.0", b.runs())
		})
	}
}

// I10
func TestAStoppedDaemonStaysStopped(t *testing.T) {
	b := newBed(t)
	b.write("daemon", "1.0", "ok")
	r := b.run(b.candidate("2.0", "ok"))
	assert.Equal(t, activation.OutcomeActivated, r.Outcome)
	assert.Zero(t, b.pid())
	assert.Equal(t, "2.0", b.names()["path"])
	assert.Equal(t, "1.0", b.names()["last-good"])
}

func TestWithoutAUnit(t *testing.T) {
	b := newBed(t)
	b.write("daemon", "1.0", "ok")
	w := b.candidate("2.0", "ok")
	w.Unit = ""
	b.run(w)
	assert.Equal(t, "2.0", b.names()["path"])
	back := b.want(activation.RolledBack)
	back.Unit = ""
	b.run(back)
	assert.Equal(t, "1.0", b.names()["path"])
}

// I9
func TestAnotherUpgraderIsLeftAlone(t *testing.T) {
	b := legacy(t)
	unlock, err := activation.NewHost().Lock(context.Background(), b.path("lock"), 0)
	require.NoError(t, err)
	w := b.candidate("2.0", "ok")
	_, err = b.activate(w)
	assert.Equal(t, activation.KindLockBusy, kindOf(t, err))

	w.LockTimeout = 10 * time.Second
	time.AfterFunc(100*time.Millisecond, func() { assert.NoError(t, unlock()) })
	_, err = b.activate(w)
	require.NoError(t, err)

	w.SignalPath = b.path("signal")
	require.NoError(t, os.WriteFile(w.SignalPath, []byte(`{"operationName":"op-7"}`), 0o600))
	_, err = b.activate(w)
	assert.Equal(t, activation.KindSignalPresent, kindOf(t, err))
	assert.ErrorContains(t, err, "op-7")
}

func TestCancelledBeforeTheSwitch(t *testing.T) {
	b := legacy(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := b.candidate("2.0", "ok")
	_, err := activation.Activate(ctx, b.host, b.daemon, w)
	assert.Equal(t, activation.KindCancelled, kindOf(t, err))
	assert.Equal(t, "1.0", b.runs())
}

// I7: who cancels after the switch gets a finished activation.
func TestCancelledAfterTheSwitch(t *testing.T) {
	b := legacy(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.host = &failing{Host: activation.NewHost(), fail: func(call, to string) error {
		if call == "Rename" && to == "pending.json" {
			cancel()
		}
		return nil
	}}
	r, err := activation.Activate(ctx, b.host, b.daemon, b.candidate("2.0", "ok"))
	require.NoError(t, err)
	assert.Equal(t, activation.OutcomeActivated, r.Outcome)
	assert.Equal(t, "2.0", b.runs())
}

// I1 and I2: while it is upgraded 300 times, path, current and last-good can
// be executed at every instant. A shell executes them: a child of this process
// would inherit the file that is being written, and could not run it.
func TestEveryNameRunsAtEveryInstant(t *testing.T) {
	b := newBed(t)
	b.write("daemon", "1.0", "ok")
	adopt := b.want(activation.Adopted)
	adopt.Unit = ""
	b.run(adopt)
	var candidates []activation.Want
	for _, version := range []string{"2.0", "3.0", "4.0"} {
		w := b.candidate(version, "ok")
		w.Unit, w.VersionArgs = "", nil
		candidates = append(candidates, w)
	}
	const watch = `while [ ! -e "$0" ]; do for name; do "$name" --version >/dev/null || exit; echo; done; done`
	watcher := exec.Command("sh", "-c", watch, b.path("stop"), b.layout.Path, b.layout.Current, b.layout.LastGood)
	var watched, complaints bytes.Buffer
	watcher.Stdout, watcher.Stderr = &watched, &complaints
	require.NoError(t, watcher.Start())
	for i := range 300 {
		_, err := b.activate(candidates[i%len(candidates)])
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(b.path("stop"), nil, 0o600))
	require.NoError(t, watcher.Wait(), &complaints)
	assert.Greater(t, watched.Len(), 100)
}

func TestACandidateThatIsNotHereYet(t *testing.T) {
	b := legacy(t)
	w := b.candidate("2.0", "ok")
	content, err := os.ReadFile(b.path("candidate-2.0"))
	require.NoError(t, err)
	r, err := b.preflight(w)
	require.NoError(t, err)
	described := w
	described.Candidate = activation.DescribeCandidate("candidate", r.Candidate.SHA256, r.Candidate.Size, content[:4096])

	r, err = b.preflight(described)
	require.NoError(t, err)
	assert.Equal(t, activation.OutcomeActivated, r.Outcome)
	before := snapshot(t, b.dir)
	_, err = b.activate(described)
	assert.Equal(t, activation.KindCandidateMissing, kindOf(t, err))
	require.ErrorIs(t, err, activation.ErrCandidateNotHere)
	assert.Equal(t, stripLock(before), stripLock(snapshot(t, b.dir)))

	b.run(w)
	r, err = b.activate(described)
	require.NoError(t, err)
	assert.Equal(t, activation.OutcomeUnchanged, r.Outcome)
	b.run(b.want(activation.RolledBack))
	_, err = b.activate(described)
	require.NoError(t, err, "a slot holds it")
	assert.Equal(t, "2.0", b.runs())
}

// stripLock leaves out the lock file and the folder's own times.
func stripLock(snapshot string) string {
	_, rest, _ := strings.Cut(snapshot, "\n")
	var kept []string
	for line := range strings.Lines(rest) {
		if !strings.Contains(line, "/lock ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
