// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// probePoll is the pause between two probes of a process that is not ready.
// A crash is not found by polling: it comes from the service's signals.
const probePoll = 25 * time.Millisecond

// dialTimeout bounds one try to connect.
const dialTimeout = time.Second

// stopCap is how long a unit without a stop timeout may take to stop.
const stopCap = 10 * time.Minute

// stopGrace is what the manager may need beyond the unit's own stop timeout.
const stopGrace = 10 * time.Second

// monitor follows one restart.
type monitor struct {
	old    Unit
	states <-chan Unit
	job    chan jobResult
	began  time.Time
	stop   context.CancelFunc
}

type jobResult struct {
	result string
	err    error
}

// restart starts following the unit's states, so that none is missed, and
// then asks for the restart. Whether it went well is healthy's to say.
func (a *applier) restart(ctx context.Context) error {
	a.stopMonitor()
	ctx, stop := context.WithCancel(ctx)
	failed := func(err error) error {
		stop()
		return &Error{Kind: KindRestartFailed, Detail: "can't follow unit " + a.want.Unit, Err: err, Hint: "see `systemctl status " + a.want.Unit + "`"}
	}
	states, err := a.service.Watch(ctx)
	if err != nil {
		return failed(err)
	}
	old, ok := <-states
	if !ok {
		return failed(errors.New("its states stopped coming"))
	}
	// The start counter of a crash loop would block this start. Where policy
	// does not allow to clear it, the start itself tells.
	_ = a.service.ResetFailed(ctx)
	m := &monitor{old: old, states: states, job: make(chan jobResult, 1), began: a.host.Now(), stop: stop}
	if a.downSince.IsZero() && old.MainPID != 0 {
		a.downSince = m.began
	}
	a.restarted, a.changed = true, true
	go func() {
		result, err := a.service.Restart(ctx)
		m.job <- jobResult{result, err}
	}()
	a.monitor = m
	return nil
}

func (a *applier) stopMonitor() {
	if a.monitor != nil {
		a.monitor.stop()
		a.monitor = nil
	}
}

// healthy waits for the stable window of a process of the executable with
// this digest. Every way in which the wait can end stands in its one select.
func (a *applier) healthy(ctx context.Context, sha256 string) error {
	if a.monitor == nil {
		if err := a.follow(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &wait{applier: a, monitor: a.monitor, sha256: sha256, probes: make(chan error, 1)}
	w.deadline = time.NewTimer(stopLimit(a.monitor.old))
	w.window, w.again = stoppedTimer(), stoppedTimer()
	states, job := a.monitor.states, a.monitor.job
	var err error
	if a.monitor.job == nil {
		w.begin()
		err = w.state(ctx, a.monitor.old)
	}
	for err == nil && !w.done {
		select {
		case u, ok := <-states:
			if !ok {
				return w.unhealthy("its states stopped coming")
			}
			err = w.state(ctx, u)
		case j := <-job:
			job = nil
			err = w.jobEnded(ctx, j)
		case failure := <-w.probes:
			w.probed(failure)
		case <-w.again.C:
			w.probe(ctx)
		case <-w.window.C:
			w.closing = true
			w.probe(ctx)
		case <-w.deadline.C:
			err = w.late()
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// follow is for a process that an interrupted activation has started.
func (a *applier) follow(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	states, err := a.service.Watch(ctx)
	if err != nil {
		stop()
		return err
	}
	old, ok := <-states
	if !ok {
		stop()
		return errors.New("the unit's states stopped coming")
	}
	a.monitor = &monitor{old: old, states: states, began: a.host.Now(), stop: stop}
	return nil
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func stopLimit(u Unit) time.Duration {
	if u.MainPID == 0 && u.ActiveState != "deactivating" {
		return stopGrace
	}
	if u.StopTimeout == 0 {
		return stopCap
	}
	return u.StopTimeout + stopGrace
}

// wait is the state of one wait for health.
type wait struct {
	*applier
	monitor  *monitor
	sha256   string
	probes   chan error
	deadline *time.Timer // for the stop, then for the start of the window
	window   *time.Timer
	again    *time.Timer // for the next probe

	unit    Unit
	started bool // the new process was seen, or the job is done
	ready   bool // active, with the process that is watched
	probing bool
	open    bool // the stable window has begun
	closing bool // its time has passed, and a last probe is under way
	done    bool
	last    error // why the last probe failed
}

// begin starts the clock of the health timeout: the old process is gone.
func (w *wait) begin() {
	if w.started {
		return
	}
	w.started = true
	w.timing.Restart += w.host.Now().Sub(w.monitor.began).Milliseconds()
	w.deadline.Reset(w.want.Health.Timeout)
}

// state judges a new state of the unit.
func (w *wait) state(ctx context.Context, u Unit) error {
	if !w.started {
		if u.InvocationID == w.monitor.old.InvocationID {
			return nil // the old process, still stopping
		}
		w.begin()
	}
	if why := ended(u); why != "" {
		return w.unhealthy(why)
	}
	if w.ready && !sameProcess(w.unit, u) {
		return w.unhealthy(fmt.Sprintf("its process did not stay the same (main PID %d, then %d; %d automatic restarts)", w.unit.MainPID, u.MainPID, u.NRestarts))
	}
	w.unit = u
	if !w.ready && u.ActiveState == "active" {
		w.ready = true
		w.probe(ctx)
	}
	return nil
}

// ended says why a unit is not on its way to health, or "".
func ended(u Unit) string {
	switch {
	case strings.HasPrefix(u.SubState, "auto-restart"):
		return "it crashed and is restarted automatically: " + exitWords(u)
	case u.ActiveState == "failed":
		return "it failed: " + exitWords(u)
	case u.ActiveState == "inactive", u.ActiveState == "deactivating":
		return "it ended: " + exitWords(u)
	}
	return ""
}

func exitWords(u Unit) string {
	const exited, killed, dumped = 1, 2, 3 // CLD_EXITED, CLD_KILLED, CLD_DUMPED
	switch {
	case u.Result == "timeout":
		return "a time limit of the unit was reached"
	case u.ExitCode == exited && u.ExitStatus == 203:
		return "systemd could not execute it (status 203/EXEC): wrong file, missing loader, noexec, or a SELinux denial"
	case u.ExitCode == exited:
		return fmt.Sprintf("exit code %d", u.ExitStatus)
	case u.ExitCode == killed, u.ExitCode == dumped:
		return fmt.Sprintf("killed by signal %d (%v)", u.ExitStatus, syscall.Signal(u.ExitStatus))
	}
	return "result " + u.Result
}

func sameProcess(a, b Unit) bool {
	return a.MainPID == b.MainPID && a.InvocationID == b.InvocationID && a.NRestarts == b.NRestarts
}

// jobEnded judges the job's result, which can only say that a start failed.
func (w *wait) jobEnded(ctx context.Context, j jobResult) error {
	if j.err == nil && j.result == "done" {
		u, err := w.service.Inspect(ctx)
		if err != nil {
			return err
		}
		w.begin()
		return w.state(ctx, u)
	}
	why := "the restart's result is " + j.result
	if u, err := w.service.Inspect(ctx); err == nil && u.InvocationID != w.monitor.old.InvocationID {
		if how := ended(u); how != "" {
			return w.unhealthy(how)
		}
	}
	return &Error{Kind: KindRestartFailed, Step: StepRestart, Detail: fmt.Sprintf("unit %s did not restart: %s", w.want.Unit, why), Err: j.err, Hint: "see `systemctl status " + w.want.Unit + "` and its journal"}
}

// probe asks, beside the wait, whether the wanted executable runs and answers.
func (w *wait) probe(ctx context.Context) {
	if w.probing {
		return
	}
	w.probing = true
	u := w.unit
	go func() { w.probes <- w.ask(ctx, u) }()
}

func (w *wait) ask(ctx context.Context, u Unit) error {
	if err := w.runsWanted(u); err != nil {
		return err
	}
	if w.want.Health.TCP != "" {
		d := net.Dialer{Timeout: dialTimeout}
		conn, err := d.DialContext(ctx, "tcp", w.want.Health.TCP)
		if err != nil {
			return err
		}
		_ = conn.Close() // that it was accepted is all that is asked
	}
	if argv := w.want.Health.Command; len(argv) > 0 {
		out, err := w.host.Run(ctx, Command{Argv: argv})
		if err != nil {
			return fmt.Errorf("%s: %w", argv[0], err)
		}
		if out.ExitCode != 0 {
			return fmt.Errorf("%s ended with exit code %d (%s)", argv[0], out.ExitCode, firstLine(out.Text))
		}
	}
	return nil
}

// runsWanted compares inodes, and digests where the inode is another: a path
// would lie about a file that was replaced.
func (w *wait) runsWanted(u Unit) error {
	slot, err := os.Stat(w.o.Entries[RoleCurrent].Real)
	if err != nil {
		return err
	}
	pids := processes(u)
	for _, pid := range pids {
		exe, err := os.Stat(exePath(pid))
		if err == nil && os.SameFile(exe, slot) {
			return nil
		}
	}
	if w.runsScript() && len(pids) > 0 {
		return nil // the kernel shows only its interpreter
	}
	for _, pid := range pids {
		if f, err := os.Open(exePath(pid)); err == nil {
			sum, err := hashFile(f)
			_ = f.Close()
			if err == nil && sum == w.sha256 {
				return nil
			}
		}
	}
	exe, _ := os.Readlink(exePath(u.MainPID))
	return fmt.Errorf("main process %d runs %q, not what %s resolves to", u.MainPID, exe, w.want.Layout.Current)
}

func (w *wait) runsScript() bool {
	f, err := os.Open(w.o.Entries[RoleCurrent].Real)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, _ = f.ReadAt(head[:], 0) // an empty file is no script
	return string(head[:]) == "#!"
}

// probed takes a probe's answer: it opens the window, closes it, or, where
// the daemon does not answer, keeps waiting until the deadline.
func (w *wait) probed(failure error) {
	w.probing, w.last = false, failure
	switch {
	case failure != nil:
		w.open, w.closing = false, false
		w.window.Stop()
		w.again.Reset(probePoll)
	case w.closing:
		w.done = true
		w.timing.Health += w.host.Now().Sub(w.monitor.began).Milliseconds()
	case !w.open:
		w.open = true
		w.window.Reset(w.want.Health.StableFor)
		if !w.downSince.IsZero() {
			w.timing.Downtime = w.host.Now().Sub(w.downSince).Milliseconds()
		}
	}
}

// late judges a wait whose time is up. An open window may still run out: only
// its start has a deadline.
func (w *wait) late() error {
	if w.open {
		w.deadline.Reset(w.want.Health.StableFor + probePoll)
		return nil
	}
	if !w.started {
		return &Error{Kind: KindRestartFailed, Step: StepRestart, Detail: fmt.Sprintf("unit %s did not stop in time (it is %s, %s)", w.want.Unit, w.unit.ActiveState, w.unit.SubState), Hint: "see `systemctl status " + w.want.Unit + "`"}
	}
	why := fmt.Sprintf("it is still %s (%s) after %v", w.unit.ActiveState, w.unit.SubState, w.want.Health.Timeout)
	if w.last != nil {
		why = fmt.Sprintf("no healthy answer within %v: %v", w.want.Health.Timeout, w.last)
	}
	return w.unhealthy(why)
}

func (w *wait) unhealthy(why string) error {
	return &Error{Kind: KindUnhealthy, Step: StepHealth, Detail: fmt.Sprintf("unit %s is not healthy: %s", w.want.Unit, why), Hint: "see its journal: journalctl -u " + w.want.Unit}
}
