// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"time"
)

// Service is the daemon as its service manager sees it. Package systemd has
// the implementation for systemd; an agent may bring its own.
//
// Every call is bounded by its context. Errors are plain errors: this package
// gives them their Kind.
type Service interface {
	// Inspect reads the unit's state. A unit that does not exist is no error:
	// its LoadState is "not-found".
	Inspect(ctx context.Context) (Unit, error)
	// Reload makes the manager read its unit files again.
	Reload(ctx context.Context) error
	// ResetFailed clears the unit's failed state and its start counter, so
	// that the start limit can't block the next start.
	ResetFailed(ctx context.Context) error
	// Restart stops the unit if it runs, starts it, and returns the job's
	// result ("done", "failed", "timeout", "dependency", "canceled", ...).
	// A result is never health: a Type=simple unit whose process exits at
	// once gives "done".
	Restart(ctx context.Context) (job string, err error)
	// Watch sends the unit's state now, and again each time that anything in
	// it changes, until ctx ends; then the channel is closed. States between
	// two receives may be merged: the newest is what arrives.
	Watch(ctx context.Context) (<-chan Unit, error)
}

// Unit is what a Service tells of the daemon. Words are systemd's own.
type Unit struct {
	Name          string
	LoadState     string // loaded, not-found, masked, bad-setting, error
	LoadError     string // the manager's own words, when LoadState is not loaded
	ActiveState   string // active, reloading, inactive, failed, activating, deactivating
	SubState      string // running, exited, dead, auto-restart, start, stop-sigterm, ...
	Result        string // success, exit-code, signal, timeout, start-limit-hit, ...
	UnitFileState string // enabled, disabled, masked, static, ...

	Type         string        // simple, exec, notify, forking, oneshot, dbus, idle
	MainPID      int           // 0 when no main process runs
	InvocationID string        // hex; another one with each start
	NRestarts    uint32        // automatic restarts since the last explicit start
	ExitCode     int32         // of the last main process: CLD_EXITED, CLD_KILLED, ... (ExecMainCode)
	ExitStatus   int32         // its exit status or signal (ExecMainStatus)
	ControlGroup string        // below /sys/fs/cgroup; empty when nothing runs
	ActiveSince  time.Duration // boot clock (CLOCK_MONOTONIC); 0 when not active

	NeedReload   bool // unit files changed on disk since they were read
	FragmentPath string
	DropInPaths  []string
	ExecStart    [][]string    // argv of each ExecStart as merged from all drop-ins; argv[0] is the file that is run
	StartTimeout time.Duration // 0 when infinite
	StopTimeout  time.Duration // 0 when infinite
}
