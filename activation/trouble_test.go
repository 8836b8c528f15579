// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// deaf is a service that can't be followed or asked while gone says so.
type deaf struct {
	*supervisor
	gone func(call string) error
}

func (s *deaf) Watch(ctx context.Context) (<-chan activation.Unit, error) {
	if err := s.gone("Watch"); err != nil {
		return nil, err
	}
	return s.supervisor.Watch(ctx)
}

func (s *deaf) Inspect(ctx context.Context) (activation.Unit, error) {
	if err := s.gone("Inspect"); err != nil {
		return activation.Unit{}, err
	}
	return s.supervisor.Inspect(ctx)
}

var errBus = errors.New("the bus is gone")

// A slot that current names already may get another file: that is a switch
// too, and a failure after it goes back (I7).
func TestGoesBackFromAReplacedSlot(t *testing.T) {
	b := legacy(t)
	b.run(b.want(activation.Adopted))
	w := b.candidate("2.0", "ok")
	w.Restart = activation.RestartNever
	_, err := b.activate(w) // current leads to 2.0, which never ran
	require.NoError(t, err)

	s := &deaf{b.daemon, func(call string) error {
		if call == "Watch" {
			return errBus
		}
		return nil
	}}
	r, err := activation.Activate(context.Background(), b.host, s, b.candidate("3.0", "ok"))
	require.Error(t, err)
	assert.Equal(t, activation.OutcomeFailedRolledBack, r.Outcome)
	assert.Equal(t, "1.0", b.names()["current"])
	assert.Equal(t, "1.0", b.runs())
}

// The rename that makes path a link shows in the inode that the slot shares.
func TestAdoptsAndChangesTheMode(t *testing.T) {
	b := legacy(t)
	w := b.candidate("1.0", "ok")
	mode := fs.FileMode(0o750)
	w.Mode = &mode
	time.Sleep(20 * time.Millisecond) // so that the kernel's clock ticks
	r := b.run(w)
	assert.Equal(t, activation.OutcomeAdopted, r.Outcome)
	assert.Equal(t, "0750", r.After.Mode)
}

// interrupted leaves 2.0 switched to and not confirmed.
func interrupted(t *testing.T, b *bed) activation.Want {
	t.Helper()
	b.run(b.want(activation.Adopted))
	w := b.candidate("2.0", "ok")
	func() {
		defer func() { require.NotNil(t, recover()) }()
		watches := &deaf{b.daemon, func(call string) error {
			if call == "Watch" {
				panic("killed")
			}
			return nil
		}}
		_, _ = activation.Activate(context.Background(), b.host, watches, w)
	}()
	require.Equal(t, "2.0", b.names()["current"])
	require.Equal(t, "1.0", b.runs())
	return w
}

// What restart: never leaves running is not judged, and its health is nobody
// else's proof.
func TestSettlesWithoutARestart(t *testing.T) {
	b := legacy(t)
	w := interrupted(t, b)
	pid := b.pid()
	w.Restart = activation.RestartNever
	_, err := b.activate(w)
	require.NoError(t, err)
	assert.Equal(t, pid, b.pid())
	w.Restart = activation.RestartAuto
	b.run(w)
	assert.Equal(t, "2.0", b.runs())
}

// Cancelling a look at a process that an earlier run has started leaves it.
func TestCancelledWhileItSettles(t *testing.T) {
	b := legacy(t)
	b.run(b.want(activation.Adopted))
	w := b.candidate("2.0", "ok")
	b.host = &failing{Host: activation.NewHost(), fail: func(call, name string) error {
		if call == "Unlink" && name == "pending.json" {
			return syscall.EIO
		}
		return nil
	}}
	_, err := b.activate(w)
	require.Error(t, err)
	b.host = activation.NewHost()
	pid := b.pid()

	slow := w
	slow.Health.StableFor = 10 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	r, err := activation.Activate(ctx, b.host, b.daemon, slow)
	assert.Equal(t, activation.KindCancelled, kindOf(t, err))
	assert.Equal(t, activation.OutcomeFailedUnchanged, r.Outcome)
	assert.Equal(t, pid, b.pid())
	b.run(w)
	assert.Equal(t, "2.0", b.runs())
	assert.Equal(t, pid, b.pid())
}

// A probe that hangs when the window ends has failed like any other.
func TestAProbeThatHangs(t *testing.T) {
	b := legacy(t)
	b.run(b.want(activation.Adopted))
	w := b.candidate("2.0", "ok")
	script := "#!/bin/sh\n[ -e " + b.path("once") + " ] && exec sleep 100\ntouch " + b.path("once") + "\n"
	require.NoError(t, os.WriteFile(b.path("probe"), []byte(script), 0o755))
	w.Health.Command = []string{b.path("probe")}
	w.Health.Timeout = 300 * time.Millisecond
	_, err := b.activate(w)
	require.Error(t, err)
	assert.Equal(t, "1.0", b.names()["current"])
}

// Folders may be reached through links, also those that are still to be made.
func TestFoldersBehindLinks(t *testing.T) {
	b := legacy(t)
	require.NoError(t, os.Mkdir(b.path("data"), 0o755))
	b.link("link", b.path("data"))
	w := b.candidate("2.0", "ok")
	w.StateDir = b.path("link/state")
	w.Layout = activation.DefaultLayout(b.layout.Path, b.path("link/slots"))
	r, err := b.activate(w)
	require.NoError(t, err)
	assert.Equal(t, activation.OutcomeActivated, r.Outcome)
	assert.Equal(t, "2.0", b.runs())
	assert.FileExists(t, b.path("data/slots/daemon-green"))
	r, err = b.activate(w)
	require.NoError(t, err)
	assert.Empty(t, r.Plan, "I6")
}

// A failure does not report the facts that were planned.
func TestReportsWhatIsSeen(t *testing.T) {
	b := legacy(t)
	b.run(b.want(activation.Adopted))
	watches := 0
	s := &deaf{b.daemon, func(call string) error {
		if call == "Watch" {
			watches++
		}
		if watches > 2 { // the restart and the wait for health; now the rollback
			return errBus
		}
		return nil
	}}
	r, err := activation.Activate(context.Background(), b.host, s, b.candidate("2.0", "crash:0s"))
	require.Error(t, err)
	assert.Equal(t, activation.OutcomeFailedDirty, r.Outcome)
	assert.Equal(t, b.layout.Blue, r.After.Current)
	assert.Nil(t, r.After.Unit)
	assert.Contains(t, r.Warnings, "the state at the end could not be read: can't ask for unit daemon: the bus is gone")
}

// Last-good may be a file outside of the slots: what current goes back to is
// in a slot (I6).
func TestRollsBackToAFileElsewhere(t *testing.T) {
	b := newBed(t)
	require.NoError(t, os.Mkdir(b.path("versions"), 0o755))
	b.write("versions/daemon-0.9", "0.9", "ok")
	b.write("daemon-blue", "1.0", "ok")
	b.link("daemon-current", b.layout.Blue)
	b.link("daemon-last-good", b.path("versions/daemon-0.9"))
	b.link("daemon", b.layout.Current)
	require.NoError(t, b.daemon.start())
	b.run(b.want(activation.RolledBack))
	assert.Equal(t, "0.9", b.runs())
}
