// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lastgood/lastgood/activation"
)

const (
	// pollPause is the pause between two tries to reach a manager that is
	// away, and between two looks at a job whose end can't be heard.
	pollPause = 20 * time.Millisecond
	// safetyPause is how long a change may stay unseen that no signal tells
	// of, such as a unit file that was edited. A crash always has a signal.
	safetyPause = time.Second
	// reconnectLimit bounds how long one call waits for a manager that is
	// away: to re-execute itself takes it well below a second.
	reconnectLimit = 15 * time.Second
)

var errClosed = fmt.Errorf("connection to systemd: %w", os.ErrClosed)

// Service is one unit of the system's service manager. Its methods may be
// called from several goroutines.
type Service struct {
	name string
	dial dialer

	mu     sync.Mutex
	link   *link // the last one; it may have broken
	closed bool
}

var _ activation.Service = (*Service)(nil)

// Connect returns the service of that name; ".service" is added where the name
// has no suffix of a unit type. It fails with ErrNotBooted where systemd does
// not run, with fs.ErrPermission where neither socket may be used, and for a
// name that no service can have. The unit need not exist. ctx bounds the
// connecting only.
func Connect(ctx context.Context, unit string) (*Service, error) {
	name, err := serviceName(unit)
	if err != nil {
		return nil, err
	}
	l, dial, err := choose(ctx)
	if err != nil {
		return nil, err
	}
	return &Service{name: name, dial: dial, link: l}, nil
}

// Name is the unit's full name, as asked for. Inspect tells the name that an
// alias stands for.
func (s *Service) Name() string { return s.name }

// Close closes the connection. Watches go on until their contexts end; every
// other call fails with os.ErrClosed from now on.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.link.close()
}

// Inspect reads the unit's state, all of it from one moment. A unit that is
// not loaded is loaded for the question; systemd forgets it again. The unit's
// Name is its own where it was asked for by an alias.
func (s *Service) Inspect(ctx context.Context) (activation.Unit, error) {
	p, err := s.properties(ctx)
	if err != nil {
		return activation.Unit{}, err
	}
	return p.unit(), nil
}

func (s *Service) properties(ctx context.Context) (properties, error) {
	var p properties
	err := s.repeatable(ctx, "inspect "+s.name, func(l *link) (err error) {
		p, err = l.GetAllPropertiesContext(ctx, s.name)
		return err
	})
	return p, err
}

// Reload makes the manager read all unit files again, and returns when it has.
func (s *Service) Reload(ctx context.Context) error {
	return s.repeatable(ctx, "reload systemd's unit files", func(l *link) error {
		return l.ReloadContext(ctx)
	})
}

// ResetFailed clears the unit's failed state and its start counter. A refusal
// by policy satisfies errors.Is(err, fs.ErrPermission); the caller may go on
// then. A unit that is not loaded has nothing to clear, and that is no error.
func (s *Service) ResetFailed(ctx context.Context) error {
	return s.repeatable(ctx, "reset-failed "+s.name, func(l *link) error {
		err := l.ResetFailedUnitContext(ctx, s.name)
		if named(err, noSuchUnit) {
			return nil
		}
		return err
	})
}

// repeatable makes a call, and makes it again over a new connection when the
// manager went away meanwhile. So f must be harmless to repeat.
func (s *Service) repeatable(ctx context.Context, what string, f func(*link) error) error {
	giveUp := time.Now().Add(reconnectLimit)
	for {
		l, err := s.reached(ctx)
		if err != nil {
			return explain(what, err)
		}
		err = f(l)
		if !lost(l, err) || time.Now().After(giveUp) {
			return explain(what, err)
		}
	}
}

// reached is connected, for calls that may meet a manager that is away for a
// moment, since it was there when Connect returned.
func (s *Service) reached(ctx context.Context) (*link, error) {
	giveUp := time.Now().Add(reconnectLimit)
	for {
		l, err := s.connected(ctx)
		if err == nil || errors.Is(err, errClosed) || time.Now().After(giveUp) {
			return l, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// connected returns the live link, or makes one.
func (s *Service) connected(ctx context.Context) (*link, error) {
	l, err := s.current()
	if err != nil || l.Connected() {
		return l, err
	}
	// Not under the lock: another caller's context may end sooner.
	l, err = open(ctx, s.dial)
	if err != nil {
		return nil, err
	}
	return s.keep(l)
}

func (s *Service) current() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	return s.link, nil
}

// keep makes l the current link, unless another caller was quicker.
func (s *Service) keep(l *link) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.link.Connected() {
		l.close()
	} else {
		s.link = l
	}
	if s.closed {
		return nil, errClosed
	}
	return s.link, nil
}

// lost says whether err came because the manager went away, and then closes
// the link: over the bus, or between a failed write and the end of file that
// follows it, it still looks alive.
func lost(l *link, err error) bool {
	if err == nil || !isAbsence(err) {
		return false
	}
	l.close()
	return true
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(pollPause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
