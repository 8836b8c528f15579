// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// lookLimit bounds the last look at the host, which must not fail a result.
const lookLimit = 30 * time.Second

// result tells how the run ended, and undoes what a failed one has switched.
// From here on nobody's cancelling counts (I7).
func (a *applier) result(ctx context.Context, failure *Error) Result {
	ctx = context.WithoutCancel(ctx)
	r := Result{Outcome: a.plan.Outcome, Plan: a.plan.Steps, Before: a.o.Facts(), Observed: a.o, Decisions: explain(a.o, a.want, a.plan)}
	if a.o.Candidate != nil {
		r.Candidate = &a.o.Candidate.CandidateFacts
	}
	if failure != nil {
		a.undo(ctx, failure, &r)
	}
	r.Changed, r.Timing = a.changed, a.timing
	r.After = a.factsNow(ctx, failure)
	r.Warnings = append(append(append([]string(nil), a.o.Warnings...), a.plan.warnings...), a.warnings...)
	return r
}

// factsNow looks at the host once more, and only at its files where the unit
// does not answer. What was planned is true of a success alone.
func (a *applier) factsNow(ctx context.Context, failure *Error) Facts {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	o, err := observe(ctx, a.host, a.service, a.want, a.o.memory)
	if err == nil {
		return o.Facts()
	}
	a.warnings = append(a.warnings, fmt.Sprintf("the state at the end could not be read: %v", err))
	if failure == nil {
		return a.plan.After
	}
	if o, err = observe(ctx, a.host, nil, a.want, a.o.memory); err != nil {
		return Facts{}
	}
	return o.Facts()
}

// undo brings the host back to what ran, as far as the run had come.
func (a *applier) undo(ctx context.Context, failure *Error, r *Result) {
	r.Err = failure
	switch {
	case !a.touched(failure):
		r.Outcome = OutcomeFailedUnchanged
		a.withdrawMark()
	case failure.Step == StepConfirm && a.confirmed:
		// What runs is healthy; going back would gain nothing and cost a restart.
		r.Outcome = OutcomeFailedDirty
		r.Rollback = &RollbackReport{Reason: "the new process is healthy, and only " + a.want.stateFile(pendingName) + " could not be removed"}
	case a.plan.fallback == nil:
		r.Outcome = OutcomeFailedDirty
		r.Rollback = &RollbackReport{Reason: a.whyNoFallback()}
		a.remember(OutcomeFailedDirty, failure)
	default:
		a.rollBackAndReport(ctx, failure, r)
	}
}

// touched tells whether the daemon, or what it starts next, may be another
// than before. Whoever cancels a look at a process that an earlier run has
// started has not judged it.
func (a *applier) touched(failure *Error) bool {
	judged := failure.Step == StepHealth && failure.Kind != KindCancelled
	return a.restarted || judged || a.moved()
}

// moved tells whether current leads to what the plan switches to and did not
// before. A link that can't be read may have moved.
func (a *applier) moved() bool {
	e := a.o.Entries[RoleCurrent]
	if a.plan.target == "" || e.LinkTo == a.plan.target && !a.replaced(a.plan.target) {
		return false
	}
	to, err := os.Readlink(e.Real)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return to == a.plan.target
}

// replaced tells whether this run has put another file at a slot's name.
func (a *applier) replaced(slot string) bool {
	r := a.o.slotAt(slot)
	if r == roleCount {
		return false
	}
	e, now := a.o.Entries[r], a.prints[slot]
	return e.print.dev != now.dev || e.print.ino != now.ino
}

// withdrawMark removes the marker that this run has written. An earlier run's
// stays: what that one left is not settled.
func (a *applier) withdrawMark() {
	if !a.marked || a.o.Pending != nil {
		return
	}
	if err := a.unmark(); err != nil {
		a.warnings = append(a.warnings, fmt.Sprintf("%s could not be removed (%v); the next run settles it", a.want.stateFile(pendingName), err))
	}
}

func (a *applier) whyNoFallback() string {
	switch {
	case !a.want.Rollback:
		return "rollback is switched off"
	case a.want.State == RolledBack:
		return "this was the way back to last-good already"
	}
	return "there is no other version that is known to work"
}

func (a *applier) rollBackAndReport(ctx context.Context, failure *Error, r *Result) {
	report := &RollbackReport{Attempted: true, Reason: failure.Error()}
	r.Rollback = report
	ctx, cancel := context.WithTimeout(ctx, a.rollbackLimit())
	defer cancel()
	if err := a.rollBack(ctx, failure); err != nil {
		report.Error = err.Error()
		r.Outcome = OutcomeFailedDirty
		r.Err = &Error{
			Kind: KindRollbackFailed, Step: failure.Step, Detail: failure.Detail, Err: failure.Err,
			Hint: "see both errors; once their cause is gone, run again with state: rolled_back or with a version that works",
		}
		a.remember(OutcomeFailedDirty, failure)
		return
	}
	report.Succeeded = true
	r.Outcome = OutcomeFailedRolledBack
	a.remember(OutcomeFailedRolledBack, failure)
	if err := a.unmark(); err != nil {
		a.warnings = append(a.warnings, fmt.Sprintf("%s could not be removed (%v); the next run settles it", a.want.stateFile(pendingName), err))
	}
}

// rollbackTries is how often the old version is started: what made the new
// one fail, such as a port that is not free yet, may hit the first time too.
const rollbackTries = 2

// rollbackLimit is more than a rollback can take: each wait has its own limit.
func (a *applier) rollbackLimit() time.Duration {
	once := a.want.Health.Timeout + a.want.Health.StableFor + stopCap
	if a.o.Unit != nil && a.o.Unit.StopTimeout > stopCap {
		once += a.o.Unit.StopTimeout
	}
	return rollbackTries*once + time.Minute
}

// rollBack makes current last-good again and, where the daemon was touched,
// starts it and waits for its own proof of health.
func (a *applier) rollBack(ctx context.Context, failure *Error) error {
	back := a.plan.fallback
	if err := verifyDigest(back.to, back.sha256); err != nil {
		return err
	}
	if to, err := os.Readlink(a.o.Entries[RoleCurrent].Real); err != nil || to != back.to {
		if err := a.point(RoleCurrent, back.to); err != nil {
			return err
		}
	}
	if !a.restarted && failure.Step != StepHealth {
		return nil // the old process was left alone
	}
	var err error
	for range rollbackTries {
		if err = a.restart(ctx); err == nil {
			err = a.healthy(ctx, back.sha256)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

func verifyDigest(path, sha256 string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := hashFile(f)
	if err == nil && sum != sha256 {
		err = underfoot(path)
	}
	return err
}

// remember records how a failed activation ended, and a candidate that did
// not become healthy as rejected.
func (a *applier) remember(outcome Outcome, failure *Error) {
	r := Record{Outcome: outcome, SHA256: a.plan.wanted, Version: a.plan.After.Version, Detail: failure.Error()}
	if failure.Kind == KindUnhealthy {
		r.Proof = ProofRejected
	}
	if err := a.writeHistory(a.o.from(r)); err != nil {
		a.warnings = append(a.warnings, fmt.Sprintf("%s could not be written (%v): this host does not remember what has failed", a.want.stateFile(historyName), err))
	}
}
