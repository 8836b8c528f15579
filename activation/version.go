// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// versionRun is what came of running an executable's version command.
type versionRun struct {
	version string // the token that says it, or the first line; empty: unknown
	warning string
	err     *Error
}

// runVersion runs the version command of the executable behind f. Its exit
// code matters only where a version is wanted: many healthy programs do not
// know --version, but one that can't be started, is killed by a signal or
// does not end is broken. pinned, when set, is the digest that the file must
// have while it runs.
func runVersion(ctx context.Context, host Host, f *os.File, want Want, pinned string) versionRun {
	if len(want.VersionArgs) == 0 {
		return versionRun{}
	}
	ctx, cancel := context.WithTimeout(ctx, want.VersionTimeout)
	defer cancel()
	argv := append([]string{want.Layout.Path}, want.VersionArgs...)
	out, err := host.Run(ctx, Command{File: f, Argv: argv, SHA256: pinned})
	what := "`" + strings.Join(append([]string{"candidate"}, want.VersionArgs...), " ") + "`"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return versionRun{err: &Error{Kind: KindVersionTimeout, Detail: fmt.Sprintf("%s did not end within %v", what, want.VersionTimeout), Hint: "raise version_timeout, or name other version_args"}}
	case err != nil:
		return versionRun{err: cantRun(what, err)}
	case out.Flooded:
		return versionRun{err: versionFailed(what+fmt.Sprintf(" printed more than %d KiB", maxOutput>>10), out)}
	case out.Signal != "":
		return versionRun{err: versionFailed(what+" was killed by "+out.Signal, out)}
	}
	return judgeVersion(what, out, want.Version)
}

func judgeVersion(what string, out Output, wanted string) versionRun {
	if out.ExitCode != 0 {
		failed := fmt.Sprintf("%s ended with exit code %d", what, out.ExitCode)
		if wanted != "" {
			return versionRun{err: versionFailed(failed, out)}
		}
		return versionRun{warning: failed + "; its version is unknown"}
	}
	if wanted == "" {
		return versionRun{version: versionToken(out.Text)}
	}
	for _, token := range strings.FieldsFunc(out.Text, notInToken) {
		if strings.TrimRight(token, ".:") == wanted {
			return versionRun{version: wanted}
		}
	}
	return versionRun{err: &Error{
		Kind:   KindVersionMismatch,
		Detail: fmt.Sprintf("the candidate reports %q, not version %s", firstLine(out.Text), wanted),
		Hint:   "check that src and version belong together; in YAML a version needs quotes, or 1.10 is 1.1",
	}}
}

func versionFailed(detail string, out Output) *Error {
	if line := firstLine(out.Text); line != "" {
		detail += fmt.Sprintf(" (it printed %q)", line)
	}
	return &Error{Kind: KindVersionFailed, Detail: detail, Hint: "run it by hand on this host; if its version command is another one, name it in version_args"}
}

func cantRun(what string, err error) *Error {
	e := &Error{Kind: KindVersionFailed, Detail: "can't run " + what, Err: err, Hint: "run it by hand on this host"}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Hint = KindNotPermitted, "a security policy refuses it: look for denials of SELinux, AppArmor, fapolicyd or IMA"
	case errors.Is(err, unix.ENOEXEC):
		e.Kind, e.Hint = KindWrongArchitecture, "give this host a candidate that is built for it"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Hint = KindMissingInterpreter, "its program loader or interpreter is missing on this host"
	case errors.Is(err, errDigest):
		e.Kind, e.Hint = KindChangedUnderfoot, "somebody writes to the candidate; place it where only root can write, and try again"
	}
	return e
}

// versionToken picks the first word that looks like a version number.
func versionToken(text string) string {
	for _, token := range strings.FieldsFunc(text, notInToken) {
		token = strings.TrimRight(token, ".:")
		if strings.Contains(token, ".") && strings.ContainsAny(token[:min(2, len(token))], "0123456789") {
			return clip(token)
		}
	}
	return firstLine(text)
}

func notInToken(r rune) bool {
	return !isAlphanumeric(r) && !strings.ContainsRune(".+~:_-", r)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip(strings.TrimSpace(strings.ToValidUTF8(line, "?")))
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
