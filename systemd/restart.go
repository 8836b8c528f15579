// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errAway: the manager went away before the job's result was heard.
var errAway = errors.New("systemd went away during the job")

// Restart restarts the unit, or starts it when it does not run, and returns the
// job's result in systemd's words: done, failed, canceled, timeout, dependency,
// skipped, ... When ctx ends first, Restart returns at once with its error, and
// the job goes on. A unit that can't have a job (not-found, masked, bad-setting)
// is an error.
//
// When the manager goes away meanwhile, the result is read from the unit's
// state once it is back and the job is gone: done or failed.
func (s *Service) Restart(ctx context.Context) (string, error) {
	before, err := s.properties(ctx)
	if err != nil {
		return "", err
	}
	for {
		job, err := s.restart(ctx)
		if !errors.Is(err, errAway) {
			return job, err
		}
		after, err := s.settled(ctx)
		if err != nil {
			return "", err
		}
		if id := after.invocationID(); id != "" && id != before.invocationID() {
			return outcome(after), nil
		}
		// Nothing was started: the manager did not take the request, or
		// has forgotten the unit, which then does not run.
	}
}

// restart returns errAway when nobody can tell the result any more.
func (s *Service) restart(ctx context.Context) (string, error) {
	what := "restart " + s.name
	l, err := s.reached(ctx)
	if err != nil {
		return "", explain(what, err)
	}
	// With no room for the result, go-systemd would block all signals when
	// ctx ends first.
	result := make(chan string, 1)
	_, err = l.RestartUnitContext(ctx, s.name, "replace", result)
	if lost(l, err) {
		return "", fmt.Errorf("%s: %w: %w", what, errAway, err)
	}
	if err != nil {
		return "", explain(what, err)
	}
	job, err := s.await(ctx, l, result)
	return job, explain(what, err)
}

// await returns the job's result, or errAway when it can't come any more:
// because the connection broke, or because the job is gone without a word. The
// latter happens over the bus when a job ends just while the manager
// re-executes.
func (s *Service) await(ctx context.Context, l *link, result <-chan string) (string, error) {
	look := time.NewTicker(safetyPause)
	defer look.Stop()
	gone := false
	for {
		select {
		case job := <-result:
			return job, nil
		case <-ctx.Done():
			return "", fmt.Errorf("the job goes on: %w", ctx.Err())
		case <-l.broken():
			return "", errAway
		case <-look.C:
		}
		if gone { // since one pause, so its result is not just on its way
			return "", errAway
		}
		p, err := s.properties(ctx)
		gone = err == nil && !p.hasJob()
	}
}

// settled waits until the unit has no job.
func (s *Service) settled(ctx context.Context) (properties, error) {
	for {
		p, err := s.properties(ctx)
		if err != nil || !p.hasJob() {
			return p, err
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("restart %s: the job goes on: %w", s.name, err)
		}
	}
}

func outcome(p properties) string {
	if get[string](p, "Result") == "success" {
		return "done"
	}
	return "failed"
}
