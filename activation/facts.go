// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// active finds the active executable: what the unit starts, or else path, or
// else what the links or a lone slot still tell.
func (o *Observed) active() *File {
	f, _ := o.activeBecause()
	return f
}

// activeBecause also says how that is known.
func (o *Observed) activeBecause() (f *File, why string) {
	order := []Role{RolePath, RoleCurrent, RoleLastGood}
	if o.startsCurrent() {
		order = []Role{RoleCurrent, RolePath, RoleLastGood}
	}
	for i, r := range order {
		if f := o.Entries[r].File; f.usable() {
			return f, o.leadsThere(order[:i], r)
		}
	}
	blue, green := o.Entries[RoleBlue].File, o.Entries[RoleGreen].File
	switch {
	case blue.usable() && !green.usable(), green.usable() && !blue.usable():
		why = "no link leads to an executable, and this is the only slot that holds one"
	case blue.usable() && (o.runs(blue) == yes || o.runs(green) == yes):
		why = "no link leads to an executable, and this is the slot that the unit runs"
	default:
		return nil, ""
	}
	if blue.usable() && (!green.usable() || o.runs(blue) == yes) {
		return blue, why
	}
	return green, why
}

// leadsThere says that the name of a role led to the active executable, where
// those before it did not.
func (o *Observed) leadsThere(before []Role, r Role) string {
	text := o.Entries[r].Path + " leads to it"
	if len(before) == 0 && r == RoleCurrent {
		text = fmt.Sprintf("unit %s starts %s, which leads to it", o.Unit.Name, o.Entries[r].Path)
	}
	for _, b := range before {
		text += fmt.Sprintf(", and %s does not lead to an executable", o.Entries[b].Path)
	}
	return text
}

// ambiguous tells whether there are executables and no way to know which of
// them is active.
func (o *Observed) ambiguous() bool {
	return o.active() == nil && o.Entries[RoleBlue].File.usable()
}

func (o *Observed) startsCurrent() bool {
	if o.Unit == nil {
		return false
	}
	for _, argv := range o.Unit.ExecStart {
		for _, word := range argv {
			if o.names(word, RoleCurrent) {
				return true
			}
		}
	}
	return false
}

// managed tells whether the names stand as this package leaves them.
func (o *Observed) managed() bool {
	path, current, lastGood := o.Entries[RolePath], o.Entries[RoleCurrent], o.Entries[RoleLastGood]
	return path.Kind == SymbolicLink && path.LinkTo == current.Real &&
		current.File != nil && o.slotAt(current.LinkTo) != roleCount &&
		lastGood.File != nil && lastGood.Kind == SymbolicLink
}

func (o *Observed) slotAt(path string) Role {
	for _, r := range []Role{RoleBlue, RoleGreen} {
		if o.Entries[r].Real == path {
			return r
		}
	}
	return roleCount
}

// ran tells whether the unit ran, or should have: only one that was stopped,
// or never started, stays stopped (I10).
func (o *Observed) ran() bool {
	if o.Unit == nil {
		return false
	}
	return o.Unit.ActiveState != "inactive" || o.Pending != nil && o.Pending.Ran
}

// answer is yes, no, or unknown.
type answer int

const (
	unknown answer = iota
	yes
	no
)

// runs tells whether a process of the unit runs this very executable: by its
// inode, or by content where the slot is a copy of what was started. For a
// script the kernel knows only its interpreter.
func (o *Observed) runs(f *File) answer {
	if o.Unit == nil || f == nil || f.Script {
		return unknown
	}
	for _, p := range o.Running {
		if p.SHA256 == f.SHA256 || f.Ino != 0 && p.Dev == f.Dev && p.Ino == f.Ino {
			return yes
		}
	}
	return no
}

// deletedSuffix is what the kernel adds to the name of a file that has lost it.
const deletedSuffix = " (deleted)"

// runsFromHere tells whether the main process was started from one of our
// names and that name now stands for something else.
func (o *Observed) runsFromHere() bool {
	name, deleted := strings.CutSuffix(o.Running[0].Exe, deletedSuffix)
	if !deleted {
		return false
	}
	for r := range roleCount {
		if name == o.Entries[r].Real {
			return true
		}
	}
	return false
}

func (o *Observed) mainPID() int {
	if o.Unit == nil {
		return 0
	}
	return o.Unit.MainPID
}

// Facts returns the facts that were observed.
func (o *Observed) Facts() Facts {
	f := Facts{Managed: o.managed(), Unit: o.unitFacts()}
	if e := o.Entries[RoleCurrent]; e.File != nil {
		f.Current = e.File.Path
	}
	if e := o.Entries[RoleLastGood]; e.File != nil {
		f.LastGood = e.File.Path
	}
	active := o.active()
	if active == nil {
		return f
	}
	f.describe(active)
	f.Version = o.Version
	if slot := o.slotAt(active.Path); slot != roleCount {
		f.ActiveSlot = slot.String()
	}
	return f
}

func (f *Facts) describe(file *File) {
	f.SHA256, f.Size = file.SHA256, file.Size
	f.Mode = fmt.Sprintf("%04o", unixMode(file.Mode))
	f.Owner, f.Group = userName(file.UID), groupName(file.GID)
}

func (o *Observed) unitFacts() *UnitFacts {
	u := o.Unit
	if u == nil {
		return nil
	}
	facts := &UnitFacts{ActiveState: u.ActiveState, SubState: u.SubState, MainPID: u.MainPID, NRestarts: &u.NRestarts}
	if len(o.Running) > 0 {
		facts.RunningSHA256 = o.Running[0].SHA256
	}
	return facts
}

// userName is the user's name, or the number where it has none.
func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

func groupName(gid int) string {
	id := strconv.Itoa(gid)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}

// after predicts the facts once the plan is carried out. What can't be known
// before, such as process IDs, is left out.
func (p *planner) after() Facts {
	if !p.plan.changes() {
		return p.o.Facts()
	}
	f := Facts{Managed: true, Current: p.current.Path, LastGood: p.lastGood.Path, Version: p.versionOf(p.current)}
	f.describe(p.current)
	if slot := p.slotOf(p.current); slot != roleCount {
		f.ActiveSlot = slot.String()
	}
	if p.o.Unit != nil {
		f.Unit = p.predictUnit()
	}
	return f
}

func (p *planner) predictUnit() *UnitFacts {
	if !p.plan.restarts {
		return p.o.unitFacts()
	}
	u := &UnitFacts{ActiveState: "active"}
	if !p.current.Script {
		u.RunningSHA256 = p.current.SHA256
	}
	return u
}
