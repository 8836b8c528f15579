// SPDX-License-Identifier: Apache-2.0

// Lastgood activates a new executable of a systemd service, or brings the last
// good one back. Ansible runs it as a binary module; people run it by hand.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lastgood/lastgood/activation"
)

// version is set by the linker.
var version = "devel"

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run decides who is calling: Ansible, with a file of arguments or "-", or a
// person, with a command.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signalContext()
	defer stop()
	named := moduleNamed(filepath.Base(args[0]))
	first := ""
	if len(args) > 1 {
		first = args[1]
	}
	switch {
	case isCommand(first):
		return runByHand(ctx, args[1:], stdout, stderr)
	case named != nil || first == "-" || isRegular(first):
		return runModule(ctx, named, first, stdin, stdout)
	default:
		return usageError(stderr, "", unknownCommand(first))
	}
}

// moduleNamed returns the module of a name, as Ansible gives it to the file
// (AnsiballZ_daemon_binary) or writes it (lastgood.activation.daemon_binary).
func moduleNamed(name string) *module {
	name = strings.TrimPrefix(name, "AnsiballZ_")
	name = name[strings.LastIndex(name, ".")+1:]
	for _, m := range []module{daemonBinary, daemonBinaryInfo} {
		if m.name == name {
			return &m
		}
	}
	return nil
}

// isRegular also keeps a FIFO from being opened, which would wait.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// runModule prints one JSON object, whatever happens.
func runModule(ctx context.Context, named *module, source string, stdin io.Reader, stdout io.Writer) int {
	var r reply
	if raw, err := readArguments(source, stdin); err != nil {
		r = refusal(err)
	} else {
		r = answer(ctx, raw, named)
	}
	_, err := stdout.Write(r.encode())
	if r.Failed || err != nil {
		return exitFailed
	}
	return exitDone
}

// readArguments reads stdin only when it is asked to: with a terminal there,
// a module that reads it hangs the play.
func readArguments(source string, stdin io.Reader) ([]byte, error) {
	if source == "-" {
		raw, err := readBounded(stdin)
		return raw, argumentsError("standard input", err)
	}
	if !isRegular(source) {
		return nil, argumentsError("'"+source+"'", errNoFile)
	}
	file, err := os.Open(source)
	if err != nil {
		return nil, argumentsError("'"+source+"'", err)
	}
	defer file.Close()
	raw, err := readBounded(file)
	return raw, argumentsError("'"+source+"'", err)
}

var errNoFile = errors.New("there is no such file")

func argumentsError(where string, err error) error {
	if err == nil {
		return nil
	}
	hint := "a module's one argument is a file that holds a JSON object, or - for standard input; by hand, see `lastgood help`"
	if errors.Is(err, errTooLong) {
		hint = "look for one that holds a file's content where the file's path belongs"
	}
	return &activation.Error{Kind: activation.KindInvalidArgs, Step: stepArguments, Detail: "can't read the arguments from " + where, Err: err, Hint: hint}
}

// signalContext ends its context at the signals that ask a program to end. An
// activation that is past its first change then rolls back and reports, which
// is why further signals are swallowed.
func signalContext() (context.Context, context.CancelFunc) {
	// Writing to a reader that is gone must not end the program half way. It
	// is caught rather than ignored, because commands inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	asked := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		asked = append(asked, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), asked...)
}
