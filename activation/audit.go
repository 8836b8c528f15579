// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"fmt"
	"strings"
	"time"
)

// LayoutState says in one word how the names of a host stand.
type LayoutState string

// The words. Legacy is every host that has an executable and whose names do
// not stand as this package leaves them: it is adopted by the next activation.
const (
	Managed LayoutState = "managed"
	Legacy  LayoutState = "legacy"
	Fresh   LayoutState = "fresh" // no executable of this name at all
)

// Audit is how a host stands, beside its Facts. A look that is a preflight and
// one that is not give the same one, because both are made from an Observed.
type Audit struct {
	LayoutState LayoutState          `json:"layout_state"`
	Drift       []string             `json:"drift"` // what is not as lastgood left it; a sentence each, without a full stop
	Slots       map[string]SlotFacts `json:"slots"` // blue and green
	Pending     *Pending             `json:"pending"`
	LockHolder  int                  `json:"lock_holder"` // PID; 0: nobody, -1: somebody who can't be named
	Signal      *Signal              `json:"signal"`
	LastResult  *Record              `json:"last_result"` // the history's newest record
}

// SlotFacts are the facts of one slot. An inactive slot's executable is not
// run: it may be the one that was rejected. Its version is what the history
// knows of it.
type SlotFacts struct {
	Path    string `json:"path"`
	SHA256  string `json:"sha256,omitempty"` // empty: no executable there
	Version string `json:"version,omitempty"`
	Size    int64  `json:"size,omitempty"`
}

// Audit returns how the observed host stands.
func (o *Observed) Audit() Audit {
	return Audit{
		LayoutState: o.layoutState(),
		Drift:       o.drift(),
		Slots:       map[string]SlotFacts{RoleBlue.String(): o.slotFacts(RoleBlue), RoleGreen.String(): o.slotFacts(RoleGreen)},
		Pending:     o.Pending,
		LockHolder:  o.LockHolder,
		Signal:      o.Signal,
		LastResult:  o.lastResult(),
	}
}

func (o *Observed) layoutState() LayoutState {
	switch {
	case o.managed():
		return Managed
	case o.active() != nil || o.ambiguous():
		return Legacy
	}
	return Fresh
}

func (o *Observed) slotFacts(r Role) SlotFacts {
	e := o.Entries[r]
	s := SlotFacts{Path: e.Path}
	if f := e.File; f != nil {
		s.SHA256, s.Size, s.Version = f.SHA256, f.Size, o.versionOf(f.SHA256)
	}
	return s
}

// versionOf is the version of an executable on this host, or "".
func (o *Observed) versionOf(sha256 string) string {
	if a := o.active(); a != nil && a.SHA256 == sha256 {
		return o.Version
	}
	return versionOf(o.History, sha256)
}

// from adds to a record what was active before.
func (o *Observed) from(r Record) Record {
	if a := o.active(); a != nil && a.SHA256 != r.SHA256 {
		r.FromSHA256, r.FromVersion = a.SHA256, o.Version
	}
	return r
}

func (o *Observed) lastResult() *Record {
	if len(o.History) == 0 {
		return nil
	}
	return &o.History[len(o.History)-1]
}

// drift lists what is not as lastgood left it, or as the unit would have it
// after its next restart. That an activation is pending is told apart.
func (o *Observed) drift() []string {
	sentences := []string{}
	add := func(found ...string) {
		for _, s := range found {
			if s != "" {
				sentences = append(sentences, s)
			}
		}
	}
	if o.wasManaged() {
		add(o.pathDrift(), o.currentDrift(), o.lastGoodDrift(), o.recordDrift())
	}
	if o.Unit != nil && o.layoutState() != Fresh {
		add(o.unitDrift(), o.processDrift())
	}
	return sentences
}

// wasManaged tells whether lastgood, or somebody who keeps the same layout,
// was here: only then do names that stand otherwise mean anything.
func (o *Observed) wasManaged() bool {
	for _, r := range []Role{RoleBlue, RoleGreen, RoleCurrent, RoleLastGood} {
		if o.Entries[r].Kind != Missing {
			return true
		}
	}
	return len(o.History) > 0
}

func (o *Observed) pathDrift() string {
	e, current := o.Entries[RolePath], o.Entries[RoleCurrent]
	switch {
	case e.Kind == SymbolicLink && e.LinkTo == current.Real:
		return "" // where it leads from there is current's affair
	case e.Kind == SymbolicLink:
		return fmt.Sprintf("%s points to %s, not to %s", e.Path, e.Link, current.Path)
	case e.Kind == Missing:
		return e.Path + " does not exist"
	}
	return fmt.Sprintf("%s is %s, not a link to %s: somebody has replaced it", e.Path, e.What, current.Path)
}

func (o *Observed) currentDrift() string {
	e := o.Entries[RoleCurrent]
	if e.Kind == SymbolicLink && o.slotAt(e.LinkTo) == roleCount {
		return fmt.Sprintf("%s points to %s, which is no slot", e.Path, e.Link)
	}
	return linkDrift(e)
}

func (o *Observed) lastGoodDrift() string { return linkDrift(o.Entries[RoleLastGood]) }

// linkDrift is for a name that must be a link to an executable.
func linkDrift(e Entry) string {
	switch {
	case e.Kind == Missing:
		return e.Path + " does not exist"
	case e.Kind != SymbolicLink:
		return fmt.Sprintf("%s is %s, not a link to a slot", e.Path, e.What)
	case !e.File.usable():
		return fmt.Sprintf("%s leads to nothing that can run: %s", e.Path, e.unusable())
	}
	return ""
}

// recordDrift compares what current leads to with what the newest record says:
// a link that was moved, or a slot that was overwritten, looks well otherwise.
func (o *Observed) recordDrift() string {
	f, last := o.Entries[RoleCurrent].File, o.lastResult()
	if f == nil || last == nil || o.Pending != nil || last.SHA256 == "" {
		return ""
	}
	leads := fmt.Sprintf("%s leads to %s", o.Entries[RoleCurrent].Path, o.name(f.SHA256))
	switch last.Outcome {
	case OutcomeActivated, OutcomeAdopted, OutcomeRepaired, OutcomeRolledBack:
		if f.SHA256 != last.SHA256 {
			return fmt.Sprintf("%s, and what lastgood left there on %s was %s: somebody has moved the link or changed the slot", leads, day(last.At), o.name(last.SHA256))
		}
	case OutcomeFailedRolledBack:
		if f.SHA256 == last.SHA256 {
			return fmt.Sprintf("%s, which failed here on %s: somebody has moved the link back to it", leads, day(last.At))
		}
	}
	return ""
}

func (o *Observed) unitDrift() string {
	u := o.Unit
	switch {
	case u.LoadState == "not-found":
		return "there is no unit " + u.Name
	case u.LoadState != "loaded":
		return fmt.Sprintf("unit %s is %s", u.Name, u.LoadState)
	case !o.entrypoint():
		return fmt.Sprintf("unit %s starts %s, neither %s nor %s", u.Name, commands(u), o.Entries[RolePath].Path, o.Entries[RoleCurrent].Path)
	case u.NeedReload:
		return fmt.Sprintf("the files of unit %s have changed and systemd has not read them again", u.Name)
	}
	return ""
}

// processDrift compares by content: a process whose file has lost its name is
// no drift where the same executable stands in a slot.
func (o *Observed) processDrift() string {
	active := o.active()
	if len(o.Running) == 0 || active == nil || o.runs(active) != no {
		return ""
	}
	main := o.Running[0]
	exe, deleted := strings.CutSuffix(main.Exe, deletedSuffix)
	if deleted {
		exe += ", since deleted or replaced"
	}
	return fmt.Sprintf("%s runs %s from %s, and what is active is %s: it was not restarted since that changed", o.Unit.Name, o.name(main.SHA256), exe, o.name(active.SHA256))
}

// name is what people call an executable: its version, if that is known, and
// enough of its digest.
func (o *Observed) name(sha256 string) string {
	if v := o.versionOf(sha256); v != "" {
		return fmt.Sprintf("%s (sha256 %s)", v, short(sha256))
	}
	return "sha256 " + short(sha256)
}

func day(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }
