// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"fmt"
	"strings"
)

// explain says what was seen and what was decided for it, one sentence each. It
// looks at nothing again: the reasons are the planner's own.
func explain(o *Observed, want Want, plan Plan) []string {
	var sentences []string
	for _, s := range []string{o.explainActive(), o.explainProcess(), o.explainOthers(want), o.explainPending(), explainDefaults(want)} {
		if s != "" {
			sentences = append(sentences, s)
		}
	}
	return append(sentences, plan.reasons...)
}

func (o *Observed) explainActive() string {
	f, why := o.activeBecause()
	switch {
	case f != nil:
		return fmt.Sprintf("the host is %s, and active is %s in %s: %s", o.layoutState(), o.name(f.SHA256), f.Path, why)
	case o.ambiguous():
		return "the host is legacy, and nothing tells which slot is active"
	}
	return "the host is fresh: no name leads to an executable"
}

func (o *Observed) explainProcess() string {
	u := o.Unit
	if u == nil {
		return "no unit is given: only files are managed"
	}
	state := fmt.Sprintf("unit %s is %s (%s)", u.Name, u.ActiveState, u.SubState)
	if len(o.Running) == 0 {
		return state + " and runs nothing"
	}
	main := o.Running[0]
	state += fmt.Sprintf("; process %d runs sha256 %s from %s", main.PID, short(main.SHA256), main.Exe)
	switch o.runs(o.active()) {
	case yes:
		return state + ", which is what is active"
	case no:
		return state + ", which is not what is active"
	}
	return state
}

func (o *Observed) explainOthers(want Want) string {
	signal := "no signal is looked for"
	switch {
	case o.Signal != nil:
		signal = o.Signal.Path + " exists"
	case want.SignalPath != "":
		signal = want.SignalPath + " does not exist"
	}
	holder := "nobody holds"
	switch {
	case o.LockHolder > 0:
		holder = fmt.Sprintf("process %d holds", o.LockHolder)
	case o.LockHolder < 0:
		holder = "another upgrader holds"
	}
	return fmt.Sprintf("%s the lock %s, and %s", holder, want.LockPath, signal)
}

func (o *Observed) explainPending() string {
	switch {
	case o.Pending == nil:
		return ""
	case o.Pending.Unreadable:
		return "an activation was interrupted, and its marker can't be read"
	}
	return "an activation of " + o.Pending.Slot + " was interrupted and is not confirmed"
}

// explainDefaults names what was derived from path.
func explainDefaults(want Want) string {
	var derived []string
	layout := DefaultLayout(want.Layout.Path, "")
	for _, r := range []Role{RoleBlue, RoleGreen, RoleCurrent, RoleLastGood} {
		if want.Layout.at(r) == layout.at(r) {
			derived = append(derived, want.Layout.at(r))
		}
	}
	if want.LockPath == DefaultLockPath(want.Layout.Path) {
		derived = append(derived, want.LockPath)
	}
	if derived == nil {
		return ""
	}
	return "derived from path: " + strings.Join(derived, ", ")
}
