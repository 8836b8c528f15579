// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/lastgood/lastgood/activation"
)

// supervisor is a Service of a program's own: it runs one process, without
// systemd, and never restarts it by itself.
type supervisor struct {
	argv []string

	mu       sync.Mutex
	cmd      *exec.Cmd
	ended    chan struct{}
	starts   int
	unit     activation.Unit
	watchers map[chan activation.Unit]bool
}

func newSupervisor(argv ...string) *supervisor {
	return &supervisor{
		argv:     argv,
		watchers: map[chan activation.Unit]bool{},
		unit: activation.Unit{
			Name: "supervised", LoadState: "loaded", ActiveState: "inactive", SubState: "dead",
			ExecStart: [][]string{argv}, StopTimeout: 5 * time.Second,
		},
	}
}

func (s *supervisor) Inspect(context.Context) (activation.Unit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unit, nil
}

func (s *supervisor) Reload(context.Context) error      { return nil }
func (s *supervisor) ResetFailed(context.Context) error { return nil }

func (s *supervisor) Restart(ctx context.Context) (string, error) {
	s.stop()
	s.forget()
	if err := s.start(); err != nil {
		return "failed", nil //nolint:nilerr // the job's word tells it
	}
	return "done", ctx.Err()
}

func (s *supervisor) Watch(ctx context.Context) (<-chan activation.Unit, error) {
	c := make(chan activation.Unit, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	c <- s.unit
	s.watchers[c] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, c)
		close(c)
	})
	return c, nil
}

func (s *supervisor) start() error {
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	s.unit.InvocationID = fmt.Sprintf("%032x", s.starts)
	if err := cmd.Start(); err != nil {
		s.tell("failed", "failed", 0)
		return err
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	s.unit.Result = "success"
	s.tell("active", "running", cmd.Process.Pid)
	go s.await(cmd, s.ended)
	return nil
}

func (s *supervisor) await(cmd *exec.Cmd, ended chan struct{}) {
	err := cmd.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(ended)
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Sys().(syscall.WaitStatus).Signaled() {
		s.unit.ExitCode, s.unit.ExitStatus, s.unit.Result = 1, int32(exit.ExitCode()), "exit-code"
		s.tell("failed", "failed", 0)
		return
	}
	s.unit.ExitCode, s.unit.ExitStatus = 1, 0
	s.tell("inactive", "dead", 0)
}

// tell is called with the lock held.
func (s *supervisor) tell(active, sub string, pid int) {
	s.unit.ActiveState, s.unit.SubState, s.unit.MainPID = active, sub, pid
	for c := range s.watchers {
		select {
		case <-c: // only the newest state counts
		default:
		}
		c <- s.unit
	}
}

// forget is what systemd does with a unit that does not run and that nothing
// refers to: what it knew of the last run is gone, the invocation too.
func (s *supervisor) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unit.InvocationID, s.unit.Result, s.unit.ExitCode, s.unit.ExitStatus = "", "success", 0, 0
	s.tell("inactive", "dead", 0)
}

func (s *supervisor) stop() {
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	<-ended
}
