// SPDX-License-Identifier: Apache-2.0

//go:build systemdhost

package systemd

// Tests against a real manager. They write unit files, restart units and
// re-execute PID 1, so they are built only for a host that is theirs: package
// e2e runs them on hosts with each version of systemd.

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

const (
	unitFolder = "/run/systemd/system"
	patience   = 20 * time.Second
	nobody     = 65534
)

// onHost runs a test over the private socket and over the system bus.
func onHost(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("private", test)
	t.Run("bus", func(t *testing.T) {
		old := privateSocket
		t.Cleanup(func() { privateSocket = old })
		privateSocket = filepath.Join(t.TempDir(), "none")
		test(t)
	})
}

func systemctl(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	require.NoError(t, err, "systemctl %v: %s", args, out)
}

// attempt is systemctl where there may be nothing to do.
func attempt(args ...string) { _ = exec.Command("systemctl", args...).Run() }

// unitFile writes a file below unitFolder, and takes it and its unit away at
// the end of the test.
func unitFile(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(unitFolder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	t.Cleanup(func() { forget(path) })
}

func forget(path string) {
	unit := filepath.Base(path)
	attempt("kill", "--signal=KILL", unit)
	attempt("stop", unit)
	attempt("reset-failed", unit)
	_ = os.Remove(path)
	if folder := filepath.Dir(path); folder != unitFolder {
		_ = os.Remove(folder)
	}
	attempt("daemon-reload")
}

// daemon declares lastgood-test.service with these lines in [Service], and
// connects to it.
func daemon(t *testing.T, lines ...string) *Service {
	t.Helper()
	unitFile(t, "lastgood-test.service", "[Service]\n"+strings.Join(lines, "\n")+"\n")
	systemctl(t, "daemon-reload")
	return connect(t, "lastgood-test")
}

func connect(t *testing.T, unit string) *Service {
	t.Helper()
	s, err := Connect(t.Context(), unit)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func inspect(t *testing.T, s *Service) activation.Unit {
	t.Helper()
	unit, err := s.Inspect(t.Context())
	require.NoError(t, err)
	return unit
}

func restart(t *testing.T, s *Service) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, err := s.Restart(ctx)
	require.NoError(t, err)
	return job
}

func watchUnit(t *testing.T, s *Service) <-chan activation.Unit {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	states, err := s.Watch(ctx)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		for range states { // ends once it is closed
		}
	})
	return states
}

// await returns the first state for which is holds.
func await(t *testing.T, states <-chan activation.Unit, is func(activation.Unit) bool) activation.Unit {
	t.Helper()
	timeout := time.After(patience)
	var last activation.Unit
	for {
		select {
		case unit, open := <-states:
			require.True(t, open, "the watch ended")
			if is(unit) {
				return unit
			}
			last = unit
		case <-timeout:
			require.Fail(t, "the awaited state did not come", "last: %+v", last)
		}
	}
}

func running(u activation.Unit) bool { return u.ActiveState == "active" && u.SubState == "running" }
func failed(u activation.Unit) bool  { return u.ActiveState == "failed" }

func TestOnHostInspectRunning(t *testing.T) {
	onHost(t, func(t *testing.T) {
		noLeak(t)
		s := daemon(t, "ExecStart=@/bin/sleep lastgood-sleeper 1000", "TimeoutStartSec=42", "TimeoutStopSec=infinity")
		idle := inspect(t, s)
		require.Equal(t, "inactive", idle.ActiveState)
		require.Zero(t, idle.MainPID)
		require.Zero(t, idle.ActiveSince)

		require.Equal(t, "done", restart(t, s))
		unit := inspect(t, s)
		require.Len(t, unit.InvocationID, 32)
		require.NotZero(t, unit.ActiveSince)
		require.DirExists(t, filepath.Join("/proc", strconv.Itoa(unit.MainPID)))
		unit.InvocationID, unit.ActiveSince, unit.MainPID = "", 0, 0
		require.Equal(t, activation.Unit{
			Name: "lastgood-test.service", LoadState: "loaded",
			ActiveState: "active", SubState: "running", Result: "success", UnitFileState: "static",
			Type: "simple", ControlGroup: "/system.slice/lastgood-test.service",
			FragmentPath: unitFolder + "/lastgood-test.service", DropInPaths: []string{},
			ExecStart:    [][]string{{"/bin/sleep", "1000"}},
			StartTimeout: 42 * time.Second,
		}, unit)
	})
}

func TestOnHostNoUnit(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := connect(t, "lastgood-none")
		unit := inspect(t, s)
		require.Equal(t, "not-found", unit.LoadState)
		require.Equal(t, "inactive", unit.ActiveState)
		require.Contains(t, unit.LoadError, "not found")
		require.NoError(t, s.ResetFailed(t.Context()))
		_, err := s.Restart(t.Context())
		require.ErrorContains(t, err, "not found")
	})
}

func TestOnHostMasked(t *testing.T) {
	onHost(t, func(t *testing.T) {
		path := filepath.Join(unitFolder, "lastgood-masked.service")
		require.NoError(t, os.Symlink("/dev/null", path))
		t.Cleanup(func() { forget(path) })
		systemctl(t, "daemon-reload")
		s := connect(t, "lastgood-masked")
		unit := inspect(t, s)
		require.Equal(t, "masked", unit.LoadState)
		require.Contains(t, unit.LoadError, "masked")
		_, err := s.Restart(t.Context())
		require.ErrorContains(t, err, "masked")
	})
}

func TestOnHostBadSetting(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "Type=simple") // and nothing to start
		unit := inspect(t, s)
		require.Equal(t, "bad-setting", unit.LoadState)
		require.NotEmpty(t, unit.LoadError)
		_, err := s.Restart(t.Context())
		require.Error(t, err)
	})
}

func TestOnHostAlias(t *testing.T) {
	onHost(t, func(t *testing.T) {
		alias := filepath.Join(unitFolder, "lastgood-alias.service")
		require.NoError(t, os.Symlink("lastgood-test.service", alias))
		t.Cleanup(func() { _ = os.Remove(alias) })
		daemon(t, "ExecStart=/bin/sleep 1000")
		s := connect(t, "lastgood-alias")
		require.Equal(t, "lastgood-alias.service", s.Name())
		require.Equal(t, "lastgood-test.service", inspect(t, s).Name)

		states := watchUnit(t, s)
		require.Equal(t, "done", restart(t, s))
		require.Equal(t, "lastgood-test.service", await(t, states, running).Name)
	})
}

func TestOnHostTemplate(t *testing.T) {
	onHost(t, func(t *testing.T) {
		unitFile(t, "lastgood-test@.service", "[Service]\nExecStart=/bin/sleep %i\n")
		systemctl(t, "daemon-reload")
		t.Cleanup(func() { attempt("stop", "lastgood-test@1001.5.service") })
		s := connect(t, "lastgood-test@1001.5")
		states := watchUnit(t, s)
		require.Equal(t, "done", restart(t, s))
		unit := await(t, states, running)
		require.Equal(t, [][]string{{"/bin/sleep", "1001.5"}}, unit.ExecStart)
	})
}

func TestOnHostDropIn(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		restart(t, s) // a unit that is not loaded is read anew for each look
		require.False(t, inspect(t, s).NeedReload)

		states := watchUnit(t, s)
		unitFile(t, "lastgood-test.service.d/other.conf", "[Service]\nExecStart=\nExecStart=-/bin/sleep 2000\n")
		// 247 and 252 do not notice a new folder of drop-ins.
		later := time.Now().Add(time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(unitFolder, "lastgood-test.service"), later, later))
		unit := await(t, states, func(u activation.Unit) bool { return u.NeedReload })
		require.Equal(t, [][]string{{"/bin/sleep", "1000"}}, unit.ExecStart)

		require.NoError(t, s.Reload(t.Context()))
		unit = inspect(t, s)
		require.False(t, unit.NeedReload)
		require.Equal(t, [][]string{{"/bin/sleep", "2000"}}, unit.ExecStart)
		require.Equal(t, []string{unitFolder + "/lastgood-test.service.d/other.conf"}, unit.DropInPaths)
	})
}

// The job of a simple unit is done once there is a process, whatever that does.
func TestOnHostExitAtOnce(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sh -c 'exit 7'")
		states := watchUnit(t, s)
		require.Equal(t, "done", restart(t, s))
		since := time.Now()
		unit := await(t, states, failed)
		t.Logf("the failure was seen %v after the job's result", time.Since(since))
		require.Equal(t, "exit-code", unit.Result)
		require.EqualValues(t, 1, unit.ExitCode) // CLD_EXITED
		require.EqualValues(t, 7, unit.ExitStatus)
		require.Zero(t, unit.MainPID)
	})
}

func TestOnHostCrashIsSeenAtOnce(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		states := watchUnit(t, s)
		restart(t, s)
		unit := await(t, states, running)
		require.NoError(t, syscall.Kill(unit.MainPID, syscall.SIGKILL))
		since := time.Now()
		unit = await(t, states, failed)
		t.Logf("the crash was seen after %v", time.Since(since))
		require.Equal(t, "signal", unit.Result)
		require.EqualValues(t, syscall.SIGKILL, unit.ExitStatus)
	})
}

func TestOnHostCrashLoop(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sh -c 'sleep 0.05; exit 1'", "Restart=always", "RestartSec=100ms", "StartLimitInterval=0")
		states := watchUnit(t, s)
		require.Equal(t, "done", restart(t, s))
		first := await(t, states, running)
		await(t, states, func(u activation.Unit) bool { return u.SubState == "auto-restart" && u.Result == "exit-code" })
		later := await(t, states, func(u activation.Unit) bool { return running(u) && u.NRestarts > 1 })
		require.NotEqual(t, first.InvocationID, later.InvocationID)
	})
}

// A receiver that looks away gets the newest state, and can tell what it missed.
func TestOnHostSlowReceiver(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sleep 1000", "Restart=always", "RestartSec=1ms")
		states := watchUnit(t, s)
		restart(t, s)
		before := await(t, states, running)
		require.NoError(t, syscall.Kill(before.MainPID, syscall.SIGKILL))
		time.Sleep(500 * time.Millisecond)
		after := <-states
		require.True(t, running(after))
		require.Equal(t, before.NRestarts+1, after.NRestarts)
		require.NotEqual(t, before.InvocationID, after.InvocationID)
	})
}

func TestOnHostNeverReady(t *testing.T) {
	onHost(t, func(t *testing.T) {
		noLeak(t)
		s := daemon(t, "Type=notify", "ExecStart=/bin/sleep 1000")
		states := watchUnit(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := s.Restart(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		unit := await(t, states, func(u activation.Unit) bool { return u.ActiveState == "activating" && u.MainPID != 0 })
		require.Equal(t, "start", unit.SubState)
		require.Equal(t, "activating", inspect(t, s).ActiveState, "the job goes on")
	})
}

func TestOnHostNotify(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "Type=notify", "NotifyAccess=all", "ExecStart=/bin/sh -c 'sleep 0.2; systemd-notify --ready; exec sleep 1000'")
		require.Equal(t, "done", restart(t, s))
		require.True(t, running(inspect(t, s)))
	})
}

func TestOnHostStartTimeout(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "Type=notify", "ExecStart=/bin/sleep 1000", "TimeoutStartSec=300ms")
		require.Equal(t, "failed", restart(t, s))
		require.Equal(t, "timeout", inspect(t, s).Result)
	})
}

func TestOnHostForking(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "Type=forking", "PIDFile=/run/lastgood-test.pid",
			"ExecStart=/bin/sh -c 'sleep 1000 & echo $! >/run/lastgood-test.pid'")
		require.Equal(t, "done", restart(t, s))
		unit := inspect(t, s)
		require.True(t, running(unit))
		pid, err := os.ReadFile("/run/lastgood-test.pid")
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(unit.MainPID)+"\n", string(pid))
	})
}

func TestOnHostStartLimit(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/false", "Restart=always", "RestartSec=1ms", "StartLimitInterval=1000", "StartLimitBurst=2")
		states := watchUnit(t, s)
		restart(t, s)
		await(t, states, func(u activation.Unit) bool { return failed(u) && u.NRestarts == 2 })
		require.Equal(t, "failed", restart(t, s))
		// Not start-limit-hit: the first failure's result stays.
		require.Equal(t, "exit-code", inspect(t, s).Result)

		require.NoError(t, s.ResetFailed(t.Context()))
		require.Equal(t, "inactive", inspect(t, s).ActiveState)
		require.Equal(t, "done", restart(t, s))
	})
}

func TestOnHostSlowStop(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, `ExecStart=/bin/sh -c 'trap "" TERM; while :; do sleep 0.1; done'`, "TimeoutStopSec=2")
		states := watchUnit(t, s)
		restart(t, s)
		old := await(t, states, running)
		require.Equal(t, 2*time.Second, old.StopTimeout)
		time.Sleep(200 * time.Millisecond) // until the trap is set

		since := time.Now()
		job := make(chan string)
		go func() {
			result, err := s.Restart(t.Context())
			if err != nil {
				result = err.Error()
			}
			job <- result
		}()
		await(t, states, func(u activation.Unit) bool { return u.SubState == "stop-sigterm" })
		require.Equal(t, "done", <-job)
		require.Greater(t, time.Since(since), 1900*time.Millisecond)
		await(t, states, func(u activation.Unit) bool { return running(u) && u.InvocationID != old.InvocationID })
	})
}

// A unit that nothing refers to is not loaded, so no signal can come from its
// object until it is started.
func TestOnHostWatchUnloaded(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		states := watchUnit(t, s)
		require.Equal(t, "inactive", (<-states).ActiveState)
		select {
		case unit := <-states:
			require.Fail(t, "nothing happened", "%+v", unit)
		case <-time.After(1500 * time.Millisecond):
		}
		since := time.Now()
		systemctl(t, "start", "lastgood-test")
		await(t, states, running)
		t.Logf("the start was seen %v after the call for it", time.Since(since))
	})
}

func TestOnHostWatchEndsWithContext(t *testing.T) {
	onHost(t, func(t *testing.T) {
		noLeak(t)
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		ctx, cancel := context.WithCancel(t.Context())
		states, err := s.Watch(ctx)
		require.NoError(t, err)
		cancel() // with the first state still to be received
		timeout := time.After(patience)
		for open := true; open; {
			select {
			case _, open = <-states:
			case <-timeout:
				require.Fail(t, "the watch did not end")
			}
		}
		_, err = s.Watch(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestOnHostClosed(t *testing.T) {
	onHost(t, func(t *testing.T) {
		noLeak(t)
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		s.Close()
		_, err := s.Inspect(t.Context())
		require.ErrorIs(t, err, os.ErrClosed)
		_, err = s.Restart(t.Context())
		require.ErrorIs(t, err, os.ErrClosed)
	})
}

func TestOnHostReexecDuringWatch(t *testing.T) {
	onHost(t, func(t *testing.T) {
		noLeak(t)
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		restart(t, s)
		states := watchUnit(t, s)
		before := await(t, states, running)
		systemctl(t, "daemon-reexec")
		require.Equal(t, before.InvocationID, inspect(t, s).InvocationID)
		require.NoError(t, syscall.Kill(before.MainPID, syscall.SIGKILL))
		since := time.Now()
		await(t, states, failed)
		t.Logf("the crash was seen after %v", time.Since(since))
		require.NoError(t, s.ResetFailed(t.Context()))
		require.Equal(t, "done", restart(t, s))
		await(t, states, running)
	})
}

func TestOnHostReexecDuringRestart(t *testing.T) {
	onHost(t, func(t *testing.T) {
		for name, test := range map[string]struct{ lines, job string }{
			"done":   {"ExecStart=/bin/sh -c 'sleep 1; systemd-notify --ready; exec sleep 1000'", "done"},
			"failed": {"ExecStart=/bin/sh -c 'sleep 1; exit 1'", "failed"},
		} {
			t.Run(name, func(t *testing.T) {
				s := daemon(t, "Type=notify", "NotifyAccess=all", test.lines)
				reexec := time.AfterFunc(300*time.Millisecond, func() { attempt("daemon-reexec") })
				defer reexec.Stop()
				require.Equal(t, test.job, restart(t, s))
			})
		}
	})
}

// Calls that fall right into the gap.
func TestOnHostReexecUnderLoad(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		restart(t, s)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range 10 {
				attempt("daemon-reexec")
				time.Sleep(50 * time.Millisecond) // so that calls also succeed
			}
		}()
		for calls := 0; ; calls++ {
			require.True(t, running(inspect(t, s)))
			require.Equal(t, "done", restart(t, s))
			require.NoError(t, s.ResetFailed(t.Context()))
			select {
			case <-ended:
				t.Logf("%d rounds", calls)
				return
			default:
			}
		}
	})
}

func TestOnHostBusRestartDuringWatch(t *testing.T) {
	onHost(t, func(t *testing.T) {
		s := daemon(t, "ExecStart=/bin/sleep 1000")
		restart(t, s)
		states := watchUnit(t, s)
		before := await(t, states, running)
		systemctl(t, "restart", "dbus.service")
		require.NoError(t, syscall.Kill(before.MainPID, syscall.SIGKILL))
		await(t, states, failed)
		require.NoError(t, s.ResetFailed(t.Context()))
		require.Equal(t, "done", restart(t, s))
	})
}

// TestOnHostUnprivileged runs itself again as a user who may look, not change.
func TestOnHostUnprivileged(t *testing.T) {
	if os.Getuid() == 0 {
		restart(t, daemon(t, "ExecStart=/bin/sleep 1000"))
		self, err := os.Executable()
		require.NoError(t, err)
		program := filepath.Join("/run", filepath.Base(self)) // /root is closed to others
		copyFile(t, self, program)
		again := exec.Command(program, "-test.v", "-test.run=^TestOnHostUnprivileged$")
		again.Dir = "/"
		again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := again.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	s := connect(t, "lastgood-test")
	states := watchUnit(t, s)
	await(t, states, running)
	require.ErrorIs(t, s.ResetFailed(t.Context()), fs.ErrPermission)
	require.ErrorIs(t, s.Reload(t.Context()), fs.ErrPermission)
	_, err := s.Restart(t.Context())
	require.ErrorIs(t, err, fs.ErrPermission)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o755))
	t.Cleanup(func() { _ = os.Remove(to) })
}

func BenchmarkOnHostInspect(b *testing.B) {
	if os.Getenv("LASTGOOD_ON_HOST") != "1" {
		b.Skip("needs a host of its own with systemd as PID 1; set LASTGOOD_ON_HOST=1 there")
	}
	s, err := Connect(b.Context(), "lastgood-none")
	require.NoError(b, err)
	defer s.Close()
	for b.Loop() {
		_, err := s.Inspect(b.Context())
		require.NoError(b, err)
	}
}
