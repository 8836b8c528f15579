// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/hex"
	"math"
	"time"

	"github.com/lastgood/lastgood/activation"
)

// properties are what the manager tells of one unit: those of the interfaces
// Unit and Service together, as org.freedesktop.systemd1(5) lists them.
type properties map[string]any

// get is the property, or zero where this systemd has none of that name and
// type.
func get[T any](p properties, name string) T {
	value, _ := p[name].(T)
	return value
}

func (p properties) unit() activation.Unit {
	u := activation.Unit{
		Name:          get[string](p, "Id"),
		LoadState:     get[string](p, "LoadState"),
		ActiveState:   get[string](p, "ActiveState"),
		SubState:      get[string](p, "SubState"),
		Result:        get[string](p, "Result"),
		UnitFileState: get[string](p, "UnitFileState"),
		Type:          get[string](p, "Type"),
		MainPID:       int(get[uint32](p, "MainPID")),
		InvocationID:  p.invocationID(),
		NRestarts:     get[uint32](p, "NRestarts"),
		ExitCode:      get[int32](p, "ExecMainCode"),
		ExitStatus:    get[int32](p, "ExecMainStatus"),
		ControlGroup:  get[string](p, "ControlGroup"),
		NeedReload:    get[bool](p, "NeedDaemonReload"),
		FragmentPath:  get[string](p, "FragmentPath"),
		DropInPaths:   get[[]string](p, "DropInPaths"),
		ExecStart:     p.execStart(),
		StartTimeout:  p.duration("TimeoutStartUSec"),
		StopTimeout:   p.duration("TimeoutStopUSec"),
	}
	if u.LoadState != "loaded" {
		u.LoadError = p.loadError()
	}
	if isActive(u.ActiveState) {
		u.ActiveSince = p.duration("ActiveEnterTimestampMonotonic")
	}
	return u
}

// isActive: a unit that reloads or refreshes its configuration is up.
func isActive(state string) bool {
	return state == "active" || state == "reloading" || state == "refreshing"
}

// invocationID is empty before the first start: the manager then sends no
// bytes, or 16 zeros.
func (p properties) invocationID() string {
	id := get[[]byte](p, "InvocationID")
	for _, b := range id {
		if b != 0 {
			return hex.EncodeToString(id)
		}
	}
	return ""
}

// duration reads microseconds. Infinity is 2^64-1, and whatever else no
// time.Duration can hold is as good as infinite; both are 0.
func (p properties) duration(name string) time.Duration {
	usec := get[uint64](p, name)
	if usec > math.MaxInt64/uint64(time.Microsecond) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// loadError is the text of the pair (D-Bus error name, text).
func (p properties) loadError() string {
	pair := get[[]any](p, "LoadError")
	if len(pair) != 2 {
		return ""
	}
	text, _ := pair[1].(string)
	return text
}

// execStart reads a(sasbttttuii): the file that is run, the argv it gets, and
// facts about its last run. The prefix @ lets argv[0] differ from the file.
func (p properties) execStart() [][]string {
	var all [][]string
	for _, command := range get[[][]any](p, "ExecStart") {
		if argv := commandLine(command); argv != nil {
			all = append(all, argv)
		}
	}
	return all
}

func commandLine(command []any) []string {
	if len(command) < 2 {
		return nil
	}
	file, _ := command[0].(string)
	argv, _ := command[1].([]string)
	if file == "" {
		return nil
	}
	if len(argv) == 0 {
		return []string{file}
	}
	return append([]string{file}, argv[1:]...)
}

// hasJob: Job is the pair (number, object path), and 0 is no number of a job.
func (p properties) hasJob() bool {
	pair := get[[]any](p, "Job")
	if len(pair) != 2 {
		return false
	}
	number, _ := pair[0].(uint32)
	return number != 0
}
