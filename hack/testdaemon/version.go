// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (d *daemon) printVersion() error {
	line := "testdaemon " + d.version
	switch {
	case d.is("version-fail"):
		fmt.Fprintln(os.Stderr, "testdaemon: the version is a secret")
		os.Exit(3)
	case d.is("version-hang"):
		return forever()
	case d.is("version-fork"):
		return leaveChild(line, false)
	case d.is("version-daemon"):
		return leaveChild(line, true)
	case d.is("version-lie"):
		line = "testdaemon " + d.behaviours["version-lie"]
	case d.is("version-flood"):
		return flood(line)
	case d.is("version-stderr"):
		_, err := fmt.Fprintln(os.Stderr, line)
		return err
	case d.is("version-signal"):
		return segfault()
	}
	_, err := fmt.Println(line)
	return err
}

// leaveChild prints the version and leaves a child that keeps the output open.
func leaveChild(line string, session bool) error {
	child := exec.Command(self, "--hold")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := child.Start(); err != nil {
		return err
	}
	_, err := fmt.Println(line)
	return err
}

func flood(line string) error {
	for {
		if _, err := fmt.Println(line); err != nil {
			return err
		}
	}
}

// segfault ends the process by SIGSEGV. Go's runtime would turn the signal into
// an exit status, so the kernel's own action is put back first.
func segfault() error {
	const signalSetSize = 8
	var defaultAction [4]uint64
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGSEGV),
		uintptr(unsafe.Pointer(&defaultAction)), 0, signalSetSize, 0, 0) //nolint:gosec // a system call that x/sys doesn't wrap takes an address
	if errno != 0 {
		return errno
	}
	// To this thread: another one would die too late, after the end of main.
	runtime.LockOSThread()
	return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSEGV)
}
