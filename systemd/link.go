// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	manager "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// The paths are variables so that tests can point them elsewhere.
var (
	bootedPath    = "/run/systemd/system" // sd_booted(3)
	privateSocket = "/run/systemd/private"
)

// ErrNotBooted means that systemd is not this system's service manager: a
// chroot, a plain container, another init.
var ErrNotBooted = errors.New("systemd does not run here")

// link is one live connection to the manager. It is dialled here and not by
// go-systemd's constructors, because those tie its life to the context of the
// dialling, and hide the connection that signals come over: there would be no
// way to learn that it broke.
type link struct {
	*manager.Conn
	signals *dbus.Conn // the one of manager.Conn's two that receives signals
	end     context.CancelFunc
}

// dialer makes one authenticated connection that lives until life ends.
type dialer func(life context.Context) (*dbus.Conn, error)

// choose connects to the private socket or else to the system bus, and returns
// the way that worked: while the manager re-executes, the other one would only
// seem to work.
func choose(ctx context.Context) (*link, dialer, error) {
	if _, err := os.Stat(bootedPath); errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: %s is missing (a chroot, a container without systemd, or another init)", ErrNotBooted, bootedPath)
	}
	private, privateErr := open(ctx, dialPrivate)
	if privateErr == nil {
		return private, dialPrivate, nil
	}
	bus, busErr := open(ctx, dialBus)
	if busErr == nil {
		return bus, dialBus, nil
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("connect to systemd: %w", ctx.Err())
	}
	return nil, nil, fmt.Errorf("connect to systemd: private socket: %w; system bus: %w", privateErr, busErr)
}

// open makes a link. ctx bounds the dialling only; the link lives until it is
// closed.
func open(ctx context.Context, dial dialer) (*link, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	// Nothing else ends the handshake with a manager that does not answer.
	stop := context.AfterFunc(ctx, end)
	l := &link{end: end}
	conn, err := manager.NewConnection(func() (*dbus.Conn, error) {
		c, err := dial(life)
		l.signals = c // the second and last call makes the one for signals
		return c, err
	})
	if err == nil {
		l.Conn = conn
		// A bus is there even while the manager is not.
		_, err = conn.GetManagerProperty("Version")
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func dialPrivate(life context.Context) (*dbus.Conn, error) {
	conn, err := dbus.Dial("unix:path="+privateSocket, dbus.WithContext(life))
	if err != nil {
		return nil, err
	}
	// Nobody answers Hello here: that is a bus daemon's task.
	return authenticated(conn, conn.Auth(external()))
}

func dialBus(life context.Context) (*dbus.Conn, error) {
	conn, err := dbus.SystemBusPrivate(dbus.WithContext(life))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth(external()); err != nil {
		return authenticated(conn, err)
	}
	return authenticated(conn, conn.Hello())
}

func authenticated(conn *dbus.Conn, err error) (*dbus.Conn, error) {
	if err != nil {
		_ = conn.Close() // err says more
		return nil, err
	}
	return conn, nil
}

// external names the user by number: by name it would take a user database.
func external() []dbus.Auth {
	return []dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}
}

// broken is closed when no signal can arrive any more.
func (l *link) broken() <-chan struct{} { return l.signals.Context().Done() }

// close may be called more than once. It ends both connections and what they
// have running.
func (l *link) close() { l.end() }
