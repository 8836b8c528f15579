// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/hack/testdaemon/variant"
)

var base string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "testdaemon")
	if err == nil {
		base = filepath.Join(dir, "base")
		err = variant.Build(base)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// command makes a variant and a command that runs it for half a minute at most.
func command(t *testing.T, behaviour string, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testdaemon")
	require.NoError(t, variant.Write(path, base, variant.Variant{Version: "2.0.0", Behaviour: behaviour}))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	// A behaviour that leaves children behind must not outlive the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// start runs a variant as a daemon until the test ends.
func start(t *testing.T, behaviour string) (*exec.Cmd, string) {
	t.Helper()
	address := freeAddress(t)
	cmd := command(t, behaviour)
	cmd.Env = append(os.Environ(), "TESTDAEMON_LISTEN="+address)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
	})
	return cmd, address
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func ask(address string) (string, error) {
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(connection)
	return string(answer), err
}

func answered(address string) func() bool {
	return func() bool {
		_, err := ask(address)
		return err == nil
	}
}

func exitCode(err error) int {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func TestVersionCommand(t *testing.T) {
	for behaviour, want := range map[string]struct {
		stdout, stderr string
		code           int
	}{
		"ok":             {stdout: "testdaemon 2.0.0\n"},
		"crash:0":        {stdout: "testdaemon 2.0.0\n"},
		"version-lie:9":  {stdout: "testdaemon 9\n"},
		"version-stderr": {stderr: "testdaemon 2.0.0\n"},
		"version-fail":   {stderr: "testdaemon: the version is a secret\n", code: 3},
		"version-signal": {code: -1},
	} {
		t.Run(behaviour, func(t *testing.T) {
			cmd := command(t, behaviour, "--version")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			require.Equal(t, want.code, exitCode(err))
			require.Equal(t, want.stdout, stdout.String())
			require.Equal(t, want.stderr, stderr.String())
		})
	}
}

func TestVersionSignalIsSegmentationFault(t *testing.T) {
	cmd := command(t, "version-signal", "--version")
	require.Error(t, cmd.Run())
	require.Equal(t, syscall.SIGSEGV, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

func TestVersionForkLeavesChildOnOutput(t *testing.T) {
	cmd := command(t, "version-fork", "--version")
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, len("testdaemon 2.0.0\n"))
	_, err = io.ReadFull(output, line)
	require.NoError(t, err)
	require.Equal(t, "testdaemon 2.0.0\n", string(line))
	require.NoError(t, output.(*os.File).SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = output.Read(line)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the output ended, so no child holds it")
	require.NoError(t, cmd.Cancel())
	_ = cmd.Wait()
}

func TestAnswersItsVersion(t *testing.T) {
	_, address := start(t, "ok")
	require.Eventually(t, answered(address), 10*time.Second, 10*time.Millisecond)
	answer, err := ask(address)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(answer, "HTTP/1.0 200 "), answer)
	require.True(t, strings.HasSuffix(answer, "\r\n\r\ntestdaemon 2.0.0\n"), answer)
}

func TestRejectsFirstConnections(t *testing.T) {
	_, address := start(t, "reject-conn-first:2,status:503")
	rejected := 0
	require.Eventually(t, func() bool {
		answer, err := ask(address)
		if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			rejected++
		}
		return strings.HasPrefix(answer, "HTTP/1.0 503 ")
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 2, rejected)
}

func TestEnds(t *testing.T) {
	for behaviour, code := range map[string]int{"crash:0": 1, "crash:50ms": 1, "exit0:50ms": 0, "crash:now": 2} {
		t.Run(behaviour, func(t *testing.T) {
			cmd := command(t, behaviour)
			cmd.Env = append(os.Environ(), "TESTDAEMON_LISTEN="+freeAddress(t))
			require.Equal(t, code, exitCode(cmd.Run()))
		})
	}
}

func TestKeepsRunning(t *testing.T) {
	for behaviour, args := range map[string][]string{"hang": nil, "deaf": nil, "version-hang": {"--version"}} {
		t.Run(behaviour, func(t *testing.T) {
			cmd := command(t, behaviour, args...)
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				t.Fatalf("ended: %v", err)
			case <-time.After(300 * time.Millisecond):
			}
			require.NoError(t, cmd.Cancel())
			require.Error(t, <-ended)
		})
	}
}

func TestReadiness(t *testing.T) {
	for behaviour, want := range map[string]string{"ok": "READY=1", "deaf": "READY=1", "hang": ""} {
		t.Run(behaviour, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "notify")
			socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			require.NoError(t, err)
			defer socket.Close()
			t.Setenv("NOTIFY_SOCKET", path)
			start(t, behaviour)
			limit := 10 * time.Second
			if want == "" {
				limit = 300 * time.Millisecond
			}
			require.NoError(t, socket.SetReadDeadline(time.Now().Add(limit)))
			message := make([]byte, 64)
			n, _ := socket.Read(message)
			require.Equal(t, want, string(message[:n]))
		})
	}
}

func TestForkReturnsWhenChildAnswers(t *testing.T) {
	address, pidFile := freeAddress(t), filepath.Join(t.TempDir(), "pid")
	cmd := command(t, "fork")
	cmd.Env = append(os.Environ(), "TESTDAEMON_LISTEN="+address, "TESTDAEMON_PIDFILE="+pidFile)
	require.NoError(t, cmd.Run())
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) }()
	_, err = ask(address)
	require.NoError(t, err)
}

func TestReexecKeepsPIDAndChangesFile(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, variant.Write(other, base, variant.Variant{Version: "3.0.0", Behaviour: "ok"}))
	cmd, _ := start(t, "reexec:"+other+"@50ms")
	require.Eventually(t, func() bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
		return err == nil && exe == other
	}, 10*time.Second, 10*time.Millisecond)
}
