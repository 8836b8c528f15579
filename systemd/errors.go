// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/godbus/dbus/v5"
)

// The names that errors have on D-Bus: the D-Bus specification, systemd's
// bus-common-errors.h, and what the bus daemon says while the manager is away.
var (
	denials = []string{
		"org.freedesktop.DBus.Error.AccessDenied",
		"org.freedesktop.DBus.Error.AuthFailed",
		"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
	}
	absences = []string{
		"org.freedesktop.DBus.Error.Disconnected",
		"org.freedesktop.DBus.Error.NameHasNoOwner",
		"org.freedesktop.DBus.Error.NoReply",
		"org.freedesktop.DBus.Error.ServiceUnknown",
	}
	noSuchUnit = []string{"org.freedesktop.systemd1.NoSuchUnit"}
)

// explain says what failed, and makes a refusal by policy recognisable to
// callers that know nothing of D-Bus.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	if named(err, denials) {
		return fmt.Errorf("%s: %w: %w", what, fs.ErrPermission, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// isAbsence tells that nobody answered a call from an answer that is an error,
// and from a caller that waited no longer.
func isAbsence(err error) bool {
	var answer dbus.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &answer):
		return slices.Contains(absences, answer.Name)
	}
	return true
}

func named(err error, names []string) bool {
	var remote dbus.Error
	return errors.As(err, &remote) && slices.Contains(names, remote.Name)
}
