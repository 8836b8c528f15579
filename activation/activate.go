// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrCandidateNotHere says that a plan needs the content of a candidate that
// is known by its facts alone (DescribeCandidate).
var ErrCandidateNotHere = errors.New("its content is not on this host yet")

// Preflight computes and checks the whole plan and changes nothing (I4). The
// result is what Activate would report, as far as that can be known before.
// The error is also in the result, and always an *Error.
func Preflight(ctx context.Context, host Host, service Service, want Want) (Result, error) {
	c := newCall(host, service, want)
	return c.finish(c.preflight(ctx))
}

// Activate makes the host as it is wanted: it takes the lock, carries the plan
// out, and where the new process does not become healthy goes back. A host
// that is as wanted is only read. The error is also in the result, and always
// an *Error.
func Activate(ctx context.Context, host Host, service Service, want Want) (Result, error) {
	c := newCall(host, service, want)
	return c.finish(c.activate(ctx))
}

// call is one call of Preflight or Activate.
type call struct {
	host    Host
	service Service
	want    Want
	memory  *memory
	began   time.Time
}

func newCall(host Host, service Service, want Want) *call {
	return &call{host: host, service: service, want: want, memory: newMemory(), began: host.Now()}
}

func (c *call) finish(r Result) (Result, error) {
	r.Timing.Hash += c.memory.hashing.Milliseconds()
	r.Timing.Total = c.host.Now().Sub(c.began).Milliseconds()
	if r.Plan == nil {
		r.Plan = []Step{}
	}
	if r.Err != nil {
		return r, r.Err
	}
	return r, nil
}

func (c *call) preflight(ctx context.Context) Result {
	_, r := c.decide(ctx)
	return r
}

// decide observes and decides. Its result is that of a preflight.
func (c *call) decide(ctx context.Context) (Plan, Result) {
	o, err := observe(ctx, c.host, c.service, c.want, c.memory)
	if err != nil {
		return Plan{}, Result{Outcome: OutcomeRefused, Err: asError(err, Step{Step: "observe", Target: c.want.Layout.Path})}
	}
	r := Result{Observed: o, Before: o.Facts(), Warnings: o.Warnings}
	if o.Candidate != nil {
		r.Candidate = &o.Candidate.CandidateFacts
	}
	plan, refusal := Decide(o, c.want)
	if refusal != nil {
		r.Outcome, r.Err, r.After = OutcomeRefused, refusal, r.Before
		r.Decisions = explain(o, c.want, plan)
		return Plan{}, r
	}
	r.Decisions = explain(o, c.want, plan)
	r.Outcome, r.Changed, r.Plan, r.After = plan.Outcome, plan.changes(), plan.Steps, plan.After
	r.Warnings = append(r.Warnings, plan.warnings...)
	return plan, r
}

func (c *call) activate(ctx context.Context) Result {
	// While another upgrader is at work, what a look shows is half done.
	if c.want.LockTimeout <= 0 || lockHolder(c.want.LockPath) == 0 {
		if plan, r := c.decide(ctx); r.Err != nil || len(plan.Steps) == 0 {
			return r
		}
	}
	unlock, err := c.host.Lock(ctx, c.want.LockPath, c.want.LockTimeout)
	if err != nil {
		return Result{Outcome: OutcomeRefused, Err: lockError(err, c.want.LockPath)}
	}
	defer unlock() //nolint:errcheck // the kernel lets go of it at the end of this process at the latest
	c.memory.recorded, c.memory.strict = nil, true
	plan, r := c.decide(ctx)
	if r.Err != nil || len(plan.Steps) == 0 {
		return r
	}
	if err := plan.needsContent(); err != nil {
		r.Outcome, r.Changed, r.Err, r.After = OutcomeRefused, false, err, r.Before
		return r
	}
	return Apply(ctx, c.host, c.service, plan)
}

// needsContent refuses to install a candidate that is not on this host.
func (p Plan) needsContent() *Error {
	if c := p.want.Candidate; c == nil || c.file != nil {
		return nil
	}
	for _, s := range p.Steps {
		if s.Step == StepInstall {
			return &Error{Kind: KindCandidateMissing, Step: s.Step, Detail: "the candidate " + p.want.Candidate.Name + " must be copied to this host first", Err: ErrCandidateNotHere}
		}
	}
	return nil
}

func lockError(err error, path string) *Error {
	if errors.Is(err, ErrLocked) {
		return lockBusy(path, lockHolder(path))
	}
	e := &Error{Kind: KindIO, Step: "lock", Detail: "can't take the lock " + path, Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Hint = KindNotPermitted, "run as root (become: true)"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Detail, e.Hint = KindCancelled, fmt.Sprintf("cancelled while it waited for the lock %s", path), "run it again when it suits"
	}
	return e
}
