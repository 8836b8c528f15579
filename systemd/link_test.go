// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

// pointAt makes the package look for systemd below a folder of the test's own.
func pointAt(t *testing.T, booted, private, bus string) {
	t.Helper()
	oldBooted, oldPrivate := bootedPath, privateSocket
	t.Cleanup(func() { bootedPath, privateSocket = oldBooted, oldPrivate })
	bootedPath, privateSocket = booted, private
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+bus)
}

// noLeak fails the test if it ends with more goroutines than it began with.
func noLeak(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 200 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := make([]byte, 1<<20)
		t.Errorf("more than the %d goroutines of before:\n%s", before, stacks[:runtime.Stack(stacks, true)])
	})
}

func TestConnectNotBooted(t *testing.T) {
	dir := t.TempDir()
	pointAt(t, filepath.Join(dir, "none"), "/", "/")
	_, err := Connect(t.Context(), "foo")
	require.ErrorIs(t, err, ErrNotBooted)
	require.ErrorContains(t, err, "chroot")
}

func TestConnectNobodyListens(t *testing.T) {
	noLeak(t)
	dir := t.TempDir()
	pointAt(t, dir, filepath.Join(dir, "private"), filepath.Join(dir, "bus"))
	_, err := Connect(t.Context(), "foo")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "private socket")
	require.ErrorContains(t, err, "system bus")
}

// A manager that is stuck accepts connections and says nothing.
func TestConnectHonoursContext(t *testing.T) {
	noLeak(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "private")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer listener.Close()
	pointAt(t, dir, socket, socket)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Connect(ctx, "foo")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestExplain(t *testing.T) {
	require.NoError(t, explain("x", nil))

	denied := dbus.Error{Name: "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", Body: []any{"Interactive authentication required."}}
	err := explain("reset-failed foo.service", denied)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.EqualError(t, err, "reset-failed foo.service: permission denied: Interactive authentication required.")

	other := errors.New("other")
	err = explain("x", other)
	require.ErrorIs(t, err, other)
	require.NotErrorIs(t, err, fs.ErrPermission)
}

func TestIsAbsence(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"broken pipe":  {fmt.Errorf("write: %w", syscall.EPIPE), true},
		"end of file":  {io.EOF, true},
		"closed":       {dbus.ErrClosed, true},
		"no reply":     {dbus.Error{Name: "org.freedesktop.DBus.Error.NoReply"}, true},
		"an answer":    {dbus.Error{Name: "org.freedesktop.systemd1.UnitMasked"}, false},
		"out of time":  {context.DeadlineExceeded, false},
		"not any more": {fmt.Errorf("call: %w", context.Canceled), false},
	} {
		require.Equal(t, test.want, isAbsence(test.err), name)
	}
}
