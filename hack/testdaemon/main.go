// SPDX-License-Identifier: Apache-2.0

// Command testdaemon is a daemon that misbehaves as it is told to.
//
// What it does is a list of behaviours joined by commas, read from the trailer
// of its own executable (see package variant) unless TESTDAEMON_BEHAVIOUR
// replaces it:
//
//	ok                   listen, say READY=1 to systemd, answer for ever
//	crash:DUR            exit 1 after DUR; 0 exits before anything else is done
//	exit0:DUR            the same with exit status 0
//	hang                 never listen and never say READY=1
//	deaf                 say READY=1 but never listen
//	flap:DUR             after DUR hand over to a child and exit (MAINPID= is told)
//	fork                 become a daemon for Type=forking; the parent exits when
//	                     the child answers; TESTDAEMON_PIDFILE is written if set
//	reexec:PATH[@DUR]    after DUR execute PATH in the same process
//	ignore-term          ignore SIGTERM
//	delay-listen:DUR     listen only after DUR
//	reject-conn-first:N  reset the first N connections
//	status:CODE          answer with this HTTP status
//	version-fail         --version exits 3
//	version-hang         --version never returns
//	version-fork         --version leaves a child that holds its output open
//	version-daemon       the same, the child in a session of its own
//	version-lie:X        --version says X
//	version-flood        --version prints without end
//	version-stderr       --version prints to standard error
//	version-signal       --version dies by SIGSEGV
//
// TESTDAEMON_LISTEN (127.0.0.1:8080) is where it listens. Each connection gets
// "testdaemon VERSION" as an HTTP/1.0 answer. `testdaemon --make OUT KEY=VALUE...`
// writes a variant of itself.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lastgood/lastgood/hack/testdaemon/variant"
)

const (
	self = "/proc/self/exe"
	// forkedEnv tells a child that it is one, and on which file descriptor its
	// parent waits for it.
	forkedEnv = "TESTDAEMON_FORKED"
	// holdFor is longer than any time limit of a version command in a test.
	holdFor = time.Minute
)

type daemon struct {
	version    string
	behaviours map[string]string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testdaemon:", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	if len(args) > 1 && args[0] == "--make" {
		return makeVariant(args[1], args[2:])
	}
	d, err := load()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return d.serve()
	case args[0] == "--version" || args[0] == "version":
		return d.printVersion()
	case args[0] == "--hold":
		time.Sleep(holdFor)
		return nil
	default:
		return fmt.Errorf("no argument %q", args[0])
	}
}

func makeVariant(out string, fields []string) error {
	v, err := variant.Parse(fields)
	if err != nil {
		return err
	}
	return variant.Write(out, self, v)
}

func load() (*daemon, error) {
	v, err := variant.Read(self)
	if err != nil {
		return nil, err
	}
	if list := os.Getenv("TESTDAEMON_BEHAVIOUR"); list != "" {
		v.Behaviour = list
	}
	behaviours, err := variant.Behaviours(v.Behaviour)
	return &daemon{version: v.Version, behaviours: behaviours}, err
}

func (d *daemon) is(name string) bool {
	_, ok := d.behaviours[name]
	return ok
}

// duration is the argument of a behaviour that takes a time.
func (d *daemon) duration(name string) (time.Duration, error) {
	return time.ParseDuration(d.behaviours[name])
}

func (d *daemon) serve() error {
	fmt.Fprintf(os.Stderr, "testdaemon %s starts as %d\n", d.version, os.Getpid())
	if d.is("ignore-term") {
		signal.Ignore(syscall.SIGTERM)
	}
	if d.is("fork") && os.Getenv(forkedEnv) == "" {
		return d.fork()
	}
	if err := d.schedule(); err != nil {
		return err
	}
	if d.is("hang") {
		return forever()
	}
	if !d.is("deaf") {
		if err := d.listen(); err != nil {
			return err
		}
	}
	if err := ready(); err != nil {
		return err
	}
	return forever()
}

// forever is no select{}, which Go's runtime ends as a deadlock when nothing
// else is left to happen.
func forever() error {
	for {
		time.Sleep(time.Hour)
	}
}

// schedule arranges for what happens after some time. No time at all means
// before anything else is done.
func (d *daemon) schedule() error {
	for name, act := range map[string]func() error{
		"crash": func() error { os.Exit(1); return nil },
		"exit0": func() error { os.Exit(0); return nil },
		"flap":  handOver,
	} {
		if !d.is(name) {
			continue
		}
		delay, err := d.duration(name)
		if err != nil {
			return err
		}
		if err := after(delay, act); err != nil {
			return err
		}
	}
	if !d.is("reexec") {
		return nil
	}
	path, text, delayed := strings.Cut(d.behaviours["reexec"], "@")
	if !delayed {
		text = "0"
	}
	delay, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	return after(delay, func() error { return syscall.Exec(path, []string{path}, withoutBehaviour()) })
}

func after(delay time.Duration, act func() error) error {
	if delay == 0 {
		return act()
	}
	time.AfterFunc(delay, func() {
		if err := act(); err != nil {
			fmt.Fprintln(os.Stderr, "testdaemon:", err)
			os.Exit(2)
		}
	})
	return nil
}

// withoutBehaviour is the environment of a process that is to behave well, or
// as its own trailer says.
func withoutBehaviour() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TESTDAEMON_BEHAVIOUR=") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// handOver makes a child the service's main process, as a daemon does that
// upgrades itself.
func handOver() error {
	child := exec.Command(self)
	child.Env = append(withoutBehaviour(), "TESTDAEMON_BEHAVIOUR=ok")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	closeListener()
	if err := child.Start(); err != nil {
		return err
	}
	if err := notify("MAINPID=" + strconv.Itoa(child.Process.Pid)); err != nil {
		return err
	}
	// systemd must have read the message before it sees this process end.
	time.Sleep(200 * time.Millisecond)
	os.Exit(0)
	return nil
}

// fork starts the daemon proper in a session of its own and returns once it
// is ready, as Type=forking demands.
func (d *daemon) fork() error {
	started, signalled, err := os.Pipe()
	if err != nil {
		return err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), forkedEnv+"=3")
	child.ExtraFiles = []*os.File{signalled}
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	if err := signalled.Close(); err != nil {
		return err
	}
	if err := writePIDFile(child.Process.Pid); err != nil {
		return err
	}
	if n, err := started.Read(make([]byte, 1)); n == 0 {
		return fmt.Errorf("the child ended before it was ready: %w", err)
	}
	return nil
}

func writePIDFile(pid int) error {
	path := os.Getenv("TESTDAEMON_PIDFILE")
	if path == "" {
		return nil
	}
	return os.WriteFile(path, []byte(strconv.Itoa(pid)+"\n"), 0o644)
}
