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

// restarting is one restart, from when it was asked for.
type restarting struct {
	old    Unit
	states <-chan Unit // since before the request, so that none is missed
	job    chan jobResult
	asked  time.Time
	stop   context.CancelFunc
}

type jobResult struct {
	result string
	err    error
}

// restart asks for a restart. Whether it goes well is healthy's to say.
func (a *applier) restart(ctx context.Context) error {
	a.forgetRestart()
	ctx, stop := context.WithCancel(ctx)
	old, states, err := a.watch(ctx)
	if err != nil {
		stop()
		return &Error{Kind: KindRestartFailed, Detail: "can't follow unit " + a.want.Unit, Err: err, Hint: "see `systemctl status " + a.want.Unit + "`"}
	}
	// The start counter of a crash loop would block this start. Where policy
	// does not allow to clear it, the start itself tells.
	_ = a.service.ResetFailed(ctx)
	r := &restarting{old: old, states: states, job: make(chan jobResult, 1), asked: a.host.Now(), stop: stop}
	if a.downSince.IsZero() && old.MainPID != 0 {
		a.downSince = r.asked
	}
	a.restarted, a.changed, a.restarting = true, true, r
	go func() {
		result, err := a.service.Restart(ctx)
		r.job <- jobResult{result, err}
	}()
	return nil
}

// watch returns the unit's state and those that follow.
func (a *applier) watch(ctx context.Context) (Unit, <-chan Unit, error) {
	states, err := a.service.Watch(ctx)
	if err != nil {
		return Unit{}, nil, err
	}
	first, ok := <-states
	if !ok {
		return Unit{}, nil, errWatchEnded
	}
	return first, states, nil
}

var errWatchEnded = errors.New("its states stopped coming")

func (a *applier) forgetRestart() {
	if a.restarting != nil {
		a.restarting.stop()
		a.restarting = nil
	}
}

// healthy waits for the restart, where one was asked for, and then for the
// stable window of a process of the executable with this digest. Without a
// restart the process is one that an interrupted activation has started.
func (a *applier) healthy(ctx context.Context, sha256 string) error {
	asked, begun := a.host.Now(), a.host.Now()
	if a.restarting != nil {
		asked = a.restarting.asked
		var err error
		if begun, err = a.awaitJob(ctx); err != nil {
			return err
		}
		a.forgetRestart()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &wait{
		applier: a, sha256: sha256, asked: asked, probes: make(chan error, 1),
		deadline: time.NewTimer(a.want.Health.Timeout - a.host.Now().Sub(begun)), window: stoppedTimer(), again: stoppedTimer(),
	}
	return w.run(ctx)
}

// awaitJob waits until the restart's job is done, and returns when the old
// process was gone, which is when the time for health begins to count.
//
// Until then, what a state says of a process may be of the old one, or of one
// that the manager started by itself just before it got the request. All that
// counts is that an automatic restart of the new one ends the wait, since the
// job would wait for the next process too.
func (a *applier) awaitJob(ctx context.Context) (begun time.Time, err error) {
	r := a.restarting
	deadline := time.NewTimer(stopLimit(r.old))
	defer deadline.Stop()
	u := r.old
	for {
		select {
		case next, ok := <-r.states:
			if !ok {
				return begun, a.unhealthy(errWatchEnded.Error())
			}
			u = next
			if u.InvocationID == "" || u.InvocationID == r.old.InvocationID {
				continue // the old process, or the pause before the new one
			}
			if begun.IsZero() {
				begun = a.begin()
				deadline.Reset(a.want.Health.Timeout)
			}
			if isAutoRestart(u) {
				return begun, a.unhealthy(ended(u))
			}
		case j := <-r.job:
			if begun.IsZero() {
				begun = a.begin()
			}
			return begun, a.jobEnded(ctx, j)
		case <-deadline.C:
			return begun, a.jobLate(!begun.IsZero(), u)
		case <-ctx.Done():
			return begun, ctx.Err()
		}
	}
}

func (a *applier) begin() time.Time {
	now := a.host.Now()
	a.timing.Restart += now.Sub(a.restarting.asked).Milliseconds()
	return now
}

// jobEnded judges the job's result, which can only say that a start failed.
func (a *applier) jobEnded(ctx context.Context, j jobResult) error {
	if j.err == nil && j.result == "done" {
		return nil
	}
	if u, err := a.service.Inspect(ctx); err == nil && u.InvocationID != a.restarting.old.InvocationID {
		if how := ended(u); how != "" {
			return a.unhealthy(how)
		}
	}
	return a.notRestarted("the restart's result is "+j.result, j.err)
}

func (a *applier) jobLate(begun bool, u Unit) error {
	if begun {
		return a.unhealthy(a.stillWords(u))
	}
	return a.notRestarted(fmt.Sprintf("it did not stop in time (it is %s, %s)", u.ActiveState, u.SubState), nil)
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

// wait is the state of one wait for health, after the restart.
type wait struct {
	*applier
	sha256   string
	asked    time.Time // since when the wait's length counts
	probes   chan error
	deadline *time.Timer // for the start of the window
	window   *time.Timer
	again    *time.Timer // for the next probe

	unit    Unit
	ready   bool // active, with the process that is watched
	probing bool
	open    bool // the stable window has begun
	closing bool // its time has passed, and a last probe is under way
	done    bool
	last    error // why the last probe failed
}

// run waits. Every way in which the wait can end stands in its one select.
func (w *wait) run(ctx context.Context) error {
	first, states, err := w.watch(ctx)
	if err == nil {
		err = w.state(ctx, first)
	}
	for err == nil && !w.done {
		select {
		case u, ok := <-states:
			if !ok {
				return w.unhealthy(errWatchEnded.Error())
			}
			err = w.state(ctx, u)
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

// state judges a new state of the unit.
func (w *wait) state(ctx context.Context, u Unit) error {
	if why := ended(u); why != "" {
		return w.unhealthy(why)
	}
	if w.ready && !sameProcess(w.unit, u) {
		return w.unhealthy(fmt.Sprintf("its process did not stay the same (main PID %d, then %d; %d automatic restarts)", w.unit.MainPID, u.MainPID, u.NRestarts))
	}
	if w.restarted && u.NRestarts > 0 {
		return w.unhealthy("it crashed and was restarted automatically")
	}
	w.unit = u
	if !w.ready && u.ActiveState == "active" {
		w.ready = true
		w.probe(ctx)
	}
	return nil
}

func isAutoRestart(u Unit) bool { return strings.HasPrefix(u.SubState, "auto-restart") }

// ended says why a unit is not on its way to health, or "".
func ended(u Unit) string {
	switch {
	case isAutoRestart(u):
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
	return "result " + u.Result // systemd forgets a unit that ended well at once
}

func sameProcess(a, b Unit) bool {
	return a.MainPID == b.MainPID && a.InvocationID == b.InvocationID && a.NRestarts == b.NRestarts
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

// ask takes no longer than health itself may: a probe that hangs has failed.
func (w *wait) ask(ctx context.Context, u Unit) error {
	ctx, cancel := context.WithTimeout(ctx, w.want.Health.Timeout)
	defer cancel()
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
		w.timing.Health += w.host.Now().Sub(w.asked).Milliseconds()
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
	if w.last != nil {
		return w.unhealthy(fmt.Sprintf("no healthy answer within %v: %v", w.want.Health.Timeout, w.last))
	}
	if w.probing {
		return w.unhealthy(fmt.Sprintf("a probe has not ended within %v", w.want.Health.Timeout))
	}
	return w.unhealthy(w.stillWords(w.unit))
}

func (a *applier) stillWords(u Unit) string {
	return fmt.Sprintf("it is still %s (%s) after %v", u.ActiveState, u.SubState, a.want.Health.Timeout)
}

func (a *applier) notRestarted(why string, err error) error {
	return &Error{Kind: KindRestartFailed, Step: StepRestart, Detail: fmt.Sprintf("unit %s did not restart: %s", a.want.Unit, why), Err: err, Hint: "see `systemctl status " + a.want.Unit + "` and its journal"}
}

func (a *applier) unhealthy(why string) error {
	return &Error{Kind: KindUnhealthy, Step: StepHealth, Detail: fmt.Sprintf("unit %s is not healthy: %s", a.want.Unit, why), Hint: "see its journal: journalctl -u " + a.want.Unit}
}
