// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"fmt"
	"io/fs"
	"path/filepath"
)

// Step is one step of a plan, as people read it. Target is a path or a unit.
// Changes tells a step that changes the host from one that only looks.
type Step struct {
	Step    string `json:"step"`
	Target  string `json:"target"`
	Detail  string `json:"detail"`
	Changes bool   `json:"changes"`

	do action
}

// The names of steps.
const (
	StepSweep      = "sweep"      // remove what a killed run left
	StepFolder     = "folder"     // make the slots' folder
	StepVerify     = "verify"     // the candidate's digest, format and version
	StepKeep       = "keep"       // put an executable that is here already into a slot
	StepInstall    = "install"    // put the candidate into a slot
	StepAttributes = "attributes" // owner, mode, label, capabilities of a slot
	StepLastGood   = "last_good"  // point last-good
	StepReload     = "reload"     // make the manager read the unit's files again
	StepPending    = "pending"    // mark that current is switched and not confirmed
	StepCurrent    = "current"    // point current
	StepPath       = "path"       // point path
	StepRestart    = "restart"    // restart the unit
	StepHealth     = "health"     // wait for the stable window
	StepConfirm    = "confirm"    // record the result and remove the marker
)

// action is what Apply does for a step.
type action struct {
	role   Role       // the name that is made or replaced
	source source     // keep and install: where the content comes from
	file   *File      // keep: the executable; attributes: the slot's file
	attrs  attributes // keep, install and attributes
	to     string     // links: the text
	names  []string   // sweep
	mark   Pending    // pending
	record Record     // confirm
}

// source says where a slot's content comes from.
type source int

const (
	fromCandidate source = iota
	fromLink             // a hard link of path's plain file: what runs is then what the slot holds
	fromCopy
	fromProcess // a process still runs an executable that has lost its name
)

// attributes are those of a slot.
type attributes struct {
	uid, gid    int
	mode        fs.FileMode
	label, caps []byte
}

// Plan is what an activation does. It is made by Decide and read by Apply.
type Plan struct {
	Steps   []Step
	Outcome Outcome // when all goes well
	After   Facts   // when all goes well

	fallback *fallback
	ran      bool   // the unit ran, or should have: it must run at the end (I10)
	restarts bool   // the plan restarts the unit
	wanted   string // SHA-256 that is to be active at the end
	target   string // the path that current is switched to
	warnings []string
	reasons  []string // why it is as it is, in the order of the decisions
	o        *Observed
	want     Want
}

// fallback is what current goes back to when the new process is unhealthy.
type fallback struct {
	to     string // the path that current pointed at
	sha256 string
}

// changes tells whether any step changes the host.
func (p Plan) changes() bool {
	for _, s := range p.Steps {
		if s.Changes {
			return true
		}
	}
	return false
}

// Decide says what must change on the host that was observed. It is pure: no
// clock, no I/O, and everything that can be known before the first change is
// refused here.
func Decide(o *Observed, want Want) (Plan, *Error) {
	want.StateDir = o.StateDir
	if err := refuseAny(
		func() *Error { return refuseWant(o, want) },
		func() *Error { return refuseBusy(o, want) },
		func() *Error { return firstOf(o.refusals) },
		func() *Error { return refuseLayout(o) },
		func() *Error { return refuseUnit(o, want) },
		func() *Error { return refusePending(o, want) },
	); err != nil {
		return Plan{}, err
	}
	p := newPlanner(o, want)
	if err := p.decide(); err != nil {
		return Plan{reasons: p.plan.reasons}, err
	}
	if !p.plan.changes() {
		p.plan.Steps, p.plan.Outcome = []Step{}, OutcomeUnchanged
	}
	if err := refuseHost(o, p); err != nil {
		return Plan{reasons: p.plan.reasons}, err
	}
	p.plan.After = p.after()
	return p.plan, nil
}

// planner builds a plan. Beside the steps it keeps what the names will stand
// for once the steps so far are done.
type planner struct {
	o    *Observed
	want Want
	plan Plan

	active   *File // what is active now, of all that is on disk
	slots    map[Role]*File
	current  *File // what current resolves to
	lastGood *File
	outcome  Outcome
	space    map[string]int64 // bytes that the plan adds, by folder
}

func newPlanner(o *Observed, want Want) *planner {
	p := &planner{o: o, want: want, plan: Plan{o: o, want: want}, outcome: OutcomeRepaired, space: map[string]int64{}}
	p.active = o.active()
	p.slots = map[Role]*File{RoleBlue: o.Entries[RoleBlue].File, RoleGreen: o.Entries[RoleGreen].File}
	p.current = o.Entries[RoleCurrent].File
	if g := o.Entries[RoleLastGood].File; g.usable() {
		p.lastGood = g
	}
	p.plan.ran = o.ran()
	return p
}

func (p *planner) decide() *Error {
	p.sweep()
	p.folder()
	switch p.want.State {
	case Adopted:
		return p.adopted()
	case RolledBack:
		return p.rolledBack()
	default:
		return p.present()
	}
}

func (p *planner) add(step, target, detail string, do action) {
	looks := step == StepVerify || step == StepHealth
	p.plan.Steps = append(p.plan.Steps, Step{Step: step, Target: target, Detail: detail, Changes: !looks, do: do})
}

// because notes a reason, where the decision is made: what -vvv prints can't
// differ from what was decided.
func (p *planner) because(format string, args ...any) {
	p.plan.reasons = append(p.plan.reasons, fmt.Sprintf(format, args...))
}

func (p *planner) sweep() {
	for _, name := range p.o.Leftovers {
		p.add(StepSweep, name, "left by a run that was killed", action{names: []string{name}})
	}
}

// folder makes the slots' folder where only that is missing.
func (p *planner) folder() {
	for _, f := range p.o.Folders {
		if !f.Exists && f.Path == filepath.Dir(p.o.Entries[RoleBlue].Real) {
			p.add(StepFolder, f.Path, "new, mode 0755", action{})
		}
	}
}

// adopted makes the layout managed around what is active. Only what an
// interrupted activation left is undone, because that never ran well.
func (p *planner) adopted() *Error {
	if p.active == nil {
		return &Error{Kind: KindLayoutConflict, Detail: "there is no executable to adopt: " + p.want.Layout.Path + ": " + p.o.Entries[RolePath].unusable(), Hint: "install one first with state: present and a candidate"}
	}
	p.outcome = OutcomeAdopted
	if p.o.managed() {
		p.outcome = OutcomeRepaired
	}
	p.adopt()
	if p.o.Pending == nil {
		p.confirmFiles()
		return nil
	}
	p.outcome = OutcomeRepaired
	p.keepLastGood()
	p.switchTo(p.lastGood, false)
	return nil
}

// rolledBack makes current last-good again.
func (p *planner) rolledBack() *Error {
	if p.lastGood == nil {
		return &Error{Kind: KindLayoutConflict, Detail: fmt.Sprintf("there is nothing to go back to: %s: %s", p.want.Layout.LastGood, p.o.Entries[RoleLastGood].unusable()), Hint: "activate a version that works with state: present"}
	}
	p.outcome = OutcomeRolledBack
	p.adopt()
	p.keepLastGood()
	p.switchTo(p.lastGood, false)
	return nil
}

// keepLastGood puts last-good into a slot where it is a file elsewhere, so
// that current can lead to it.
func (p *planner) keepLastGood() {
	if p.slotOf(p.lastGood) != roleCount {
		return
	}
	slot, held := p.slotWith(p.lastGood.SHA256)
	if !held {
		slot = other(p.slotOf(p.current))
		p.keep(slot, p.lastGood)
	}
	p.pointLastGood(slot)
}

// present makes the candidate active and running.
func (p *planner) present() *Error {
	wanted, err := p.wantedDigest()
	if err != nil {
		return err
	}
	if p.active != nil {
		p.adopt()
	}
	if p.current != nil && p.current.SHA256 == wanted && p.active != nil {
		p.because("the candidate, sha256 %s, is what is active: nothing is installed", short(wanted))
		return p.alreadyActive()
	}
	p.because("the candidate is sha256 %s, and %s", short(wanted), p.activeDigest())
	slot, installed := p.slotWith(wanted)
	if !installed && p.want.Candidate == nil {
		return &Error{Kind: KindCandidateMissing, Detail: "no slot holds an executable with SHA-256 " + wanted, Hint: "give src, or a checksum that `lastgood status` shows"}
	}
	if err := p.refuseCandidate(wanted); err != nil {
		return err
	}
	p.outcome = OutcomeActivated
	p.verify()
	if p.active == nil {
		return p.fresh(wanted)
	}
	if !installed {
		slot = p.freeSlot()
		p.install(slot)
	} else {
		p.because("the %s slot holds the candidate already: it is not copied", slot)
		p.protect(slot)
		p.attributes(slot)
	}
	p.switchTo(p.slots[slot], true)
	return nil
}

func (p *planner) activeDigest() string {
	if p.active == nil {
		return "nothing is active"
	}
	return "what is active is sha256 " + short(p.active.SHA256)
}

// alreadyActive is for a candidate that current resolves to: what may be
// missing is its attributes, its process, or its confirmation.
func (p *planner) alreadyActive() *Error {
	if c := p.o.Candidate; c != nil && c.refusal != nil && p.want.Version != "" {
		return c.refusal
	}
	if !p.o.managed() && p.plan.changes() {
		p.outcome = OutcomeAdopted
	}
	p.attributes(p.slotOf(p.current))
	p.switchTo(p.current, true)
	return nil
}

// fresh installs the first executable of this name.
func (p *planner) fresh(wanted string) *Error {
	slot, installed := p.slotWith(wanted)
	if !installed {
		slot = RoleBlue
		p.install(slot)
	}
	p.pointLastGood(slot)
	p.switchTo(p.slots[slot], true)
	return nil
}

// adopt puts what is active into a slot and points the links, last-good
// first and path last, so that each name resolves at every instant (I1).
func (p *planner) adopt() {
	slot := p.slotOf(p.active)
	if slot == roleCount {
		slot = p.slotForKeeping()
		p.because("what is active is in no slot: it is adopted into %s", slot)
		p.keep(slot, p.active)
	}
	if !p.keepsLastGood() {
		good := slot
		if r := p.runningElsewhere(); r != nil {
			good = other(slot)
			p.keep(good, r)
		}
		p.pointLastGood(good)
	}
	p.pointCurrent(p.slots[slot])
	p.pointPath()
}

// keepsLastGood tells whether last-good may stay as it is: it resolves, and
// not through a name that is about to move.
func (p *planner) keepsLastGood() bool {
	e := p.o.Entries[RoleLastGood]
	if !e.File.usable() {
		return false
	}
	path, current := p.o.Entries[RolePath], p.o.Entries[RoleCurrent]
	moves := e.LinkTo == path.Real || e.LinkTo == current.Real || e.File.Path == path.Real
	return !moves
}

// runningElsewhere is the executable of the main process where no name on
// disk leads to its content any more: the one version that is known to work.
func (p *planner) runningElsewhere() *File {
	if len(p.o.Running) == 0 || p.o.Unit.ActiveState != "active" || p.active.Script {
		return nil
	}
	main := p.o.Running[0]
	if main.PID != p.o.Unit.MainPID || main.SHA256 == p.active.SHA256 || !p.o.runsFromHere() {
		return nil
	}
	for _, f := range p.slots {
		if f != nil && f.SHA256 == main.SHA256 {
			return nil
		}
	}
	return &File{Path: exePath(main.PID), Dev: main.Dev, Ino: main.Ino, SHA256: main.SHA256, Mode: p.active.Mode, UID: p.active.UID, GID: p.active.GID, Label: p.active.Label, Caps: p.active.Caps}
}

// slotForKeeping chooses the slot for an executable that is in none: an empty
// one before one that last-good needs least.
func (p *planner) slotForKeeping() Role {
	for _, r := range []Role{RoleBlue, RoleGreen} {
		if p.slots[r] == nil {
			return r
		}
	}
	if p.keepsLastGood() && p.slots[RoleBlue].same(p.lastGood) {
		return RoleGreen
	}
	return RoleBlue
}

// keep puts an executable that is on this host into a slot.
func (p *planner) keep(slot Role, f *File) {
	do := action{role: slot, source: fromCopy, file: f, attrs: attributesOf(f)}
	detail := "copy of " + f.Path
	plain := p.o.Entries[RolePath]
	switch {
	case f.Path == exePath(p.o.mainPID()):
		do.source, detail = fromProcess, "copy of what the running process was started from"
	case plain.Kind == RegularFile && f.Path == plain.Real && f.Links == 1 && p.sameFileSystem(f, slot):
		do.source, detail = fromLink, "the same file as "+plain.Path
	}
	kept := *f
	kept.Path = p.real(slot)
	if do.source != fromLink {
		p.space[filepath.Dir(kept.Path)] += f.Size
		kept.Dev, kept.Ino = 0, 0 // not known yet
	}
	p.add(StepKeep, p.path(slot), fmt.Sprintf("%s, sha256 %s", detail, short(f.SHA256)), do)
	p.slots[slot] = &kept
	if p.active == f {
		p.active = &kept
	}
}

func (p *planner) sameFileSystem(f *File, slot Role) bool {
	for _, folder := range p.o.Folders {
		if folder.Path == filepath.Dir(p.real(slot)) {
			return folder.Dev == f.Dev
		}
	}
	return false
}

// freeSlot chooses the slot for the candidate and makes sure that last-good
// does not resolve to it (I2).
func (p *planner) freeSlot() Role {
	slot := other(p.slotOf(p.current))
	proven, why := p.proven()
	if !p.slots[slot].same(p.lastGood) || proven {
		p.because("the %s slot is free: %s is active", slot, p.slotOf(p.current))
		p.protect(slot)
		return slot
	}
	p.because("the active %s slot is given up for the candidate: %s, and %s is last-good", p.slotOf(p.current), why, slot)
	// What is active never ran well and the other slot is last-good: go back
	// to that first, and give up the active slot.
	free := p.slotOf(p.current)
	p.pointCurrent(p.slots[slot])
	return free
}

// protect points last-good at what is active, when that has proved to work
// and is not what becomes active next.
func (p *planner) protect(next Role) {
	active := p.slotOf(p.current)
	proven, why := p.proven()
	switch {
	case active == next:
	case proven:
		p.because("last-good is to be %s: %s", active, why)
		p.pointLastGood(active)
	default:
		p.because("last-good stays as it is: %s", why)
	}
}

// proven tells whether what is active has run healthily here, and how that is
// known. What this host never recorded is taken to be good unless its unit
// says otherwise.
func (p *planner) proven() (proven bool, why string) {
	switch {
	case p.o.Pending != nil:
		return false, "an interrupted activation has switched to what is active"
	case p.current == nil:
		return false, "nothing is active"
	}
	if u := p.o.Unit; u != nil {
		switch runs := p.o.runs(p.current); {
		case u.ActiveState == "failed" || u.SubState == "auto-restart":
			return false, fmt.Sprintf("unit %s is %s (%s) with what is active", u.Name, u.ActiveState, u.SubState)
		case len(p.o.Running) > 0 && runs == no:
			return false, "the unit runs another executable than the active one"
		case u.ActiveState == "active" && runs == yes:
			return true, "the unit runs what is active"
		}
	}
	switch proof := proofOf(p.o.History, p.current.SHA256); proof {
	case "":
		return true, "nothing is recorded against what is active"
	case ProofHealthy:
		return true, "what is active was healthy here before"
	default:
		return false, "what is active is recorded as " + string(proof)
	}
}

func (p *planner) verify() {
	c := p.o.Candidate
	if c == nil {
		return
	}
	// Not its version: that is not known before the candidate is on the host.
	p.add(StepVerify, c.name, "sha256 "+short(c.SHA256), action{})
	if c.warning != "" {
		p.plan.warnings = append(p.plan.warnings, c.warning)
	}
}

func (p *planner) install(slot Role) {
	c := p.o.Candidate
	attrs := p.wantedAttributes(p.active)
	p.because("owner %d:%d and mode %04o are %s", attrs.uid, attrs.gid, unixMode(attrs.mode), p.attributesFrom())
	detail := fmt.Sprintf("%d bytes, sha256 %s, mode %04o", c.Size, short(c.SHA256), unixMode(attrs.mode))
	p.add(StepInstall, p.path(slot), detail, action{role: slot, source: fromCandidate, attrs: attrs})
	p.space[filepath.Dir(p.real(slot))] += c.Size
	p.slots[slot] = &File{
		Path: p.real(slot), Size: c.Size, SHA256: c.SHA256, Script: c.format.arch == "script",
		Mode: attrs.mode, UID: attrs.uid, GID: attrs.gid, Label: attrs.label, Caps: attrs.caps,
	}
}

// attributes gives a slot the attributes that were asked for, and those of
// the active executable otherwise.
func (p *planner) attributes(slot Role) {
	f := p.slots[slot]
	template := p.active
	if f.same(p.active) {
		template = f
	}
	attrs := p.wantedAttributes(template)
	if attrs.equal(attributesOf(f)) {
		return
	}
	detail := fmt.Sprintf("owner %d:%d, mode %04o", attrs.uid, attrs.gid, unixMode(attrs.mode))
	p.add(StepAttributes, p.path(slot), detail, action{role: slot, file: f, attrs: attrs})
	f.Mode, f.UID, f.GID, f.Label, f.Caps = attrs.mode, attrs.uid, attrs.gid, attrs.label, attrs.caps
}

// defaultMode is that of an executable that replaces nothing.
const defaultMode = 0o755

func (p *planner) wantedAttributes(template *File) attributes {
	a := attributes{uid: p.o.Host.UID, gid: p.o.Host.GID, mode: defaultMode}
	if template != nil {
		a = attributesOf(template)
	}
	if p.want.Owner != nil {
		a.uid = *p.want.Owner
	}
	if p.want.Group != nil {
		a.gid = *p.want.Group
	}
	if p.want.Mode != nil {
		a.mode = *p.want.Mode
	}
	return a
}

// attributesFrom says where a candidate's attributes come from.
func (p *planner) attributesFrom() string {
	inherited := "the default"
	if p.active != nil {
		inherited = "those of the executable that it replaces"
	}
	switch w := p.want; {
	case w.Owner != nil && w.Group != nil && w.Mode != nil:
		return "as asked for"
	case w.Owner != nil || w.Group != nil || w.Mode != nil:
		return "as asked for, and else " + inherited
	}
	return inherited
}

func attributesOf(f *File) attributes {
	return attributes{uid: f.UID, gid: f.GID, mode: f.Mode, label: f.Label, caps: f.Caps}
}

func (a attributes) equal(b attributes) bool {
	return a.uid == b.uid && a.gid == b.gid && a.mode == b.mode &&
		string(a.label) == string(b.label) && string(a.caps) == string(b.caps)
}

// switchTo makes current resolve to f, restarts what has to be restarted, and
// confirms it. Where the plan changes nothing so far and f runs, it adds
// nothing.
func (p *planner) switchTo(f *File, mayFail bool) {
	fromSHA := ""
	if p.current != nil {
		fromSHA = p.current.SHA256
	}
	p.plan.wanted, p.plan.target = f.SHA256, f.Path
	restart, why := p.restartNeeded(f, fromSHA)
	p.because("%s: %s", restartWord(restart), why)
	settle := p.o.Pending != nil
	// What restart: never leaves running says nothing about f.
	checked := restart || settle && p.plan.ran && p.want.Restart != RestartNever
	p.plan.restarts = restart
	if mayFail {
		p.mayFail(f, restart)
	}
	if restart && p.o.Unit.NeedReload {
		p.add(StepReload, p.want.Unit, "unit files changed on disk", action{})
	}
	if restart {
		p.pending(f)
	}
	p.pointCurrent(f)
	p.pointPath()
	if restart {
		p.add(StepRestart, p.want.Unit, why, action{})
	}
	if checked {
		p.add(StepHealth, p.want.Unit, healthDetail(p.want.Health), action{})
	}
	if p.plan.changes() || settle {
		p.confirm(f, checked, settle || fromSHA != f.SHA256)
	}
}

func restartWord(restart bool) string {
	if restart {
		return "a restart is planned"
	}
	return "no restart is planned"
}

func (p *planner) mayFail(f *File, restart bool) {
	back, why := p.fallbackFrom(f)
	p.plan.fallback = back
	if restart {
		p.because("%s", why)
	}
}

// fallbackFrom is where a failed switch to f goes back to, or nil, and why.
func (p *planner) fallbackFrom(f *File) (back *fallback, why string) {
	switch {
	case !p.want.Rollback:
		return nil, "a failure is not rolled back: rollback is switched off"
	case p.lastGood == nil || p.lastGood.SHA256 == f.SHA256:
		return nil, "a failure can't be rolled back: no other executable is known to work"
	}
	return &fallback{to: p.lastGood.Path, sha256: p.lastGood.SHA256},
		fmt.Sprintf("a failure is rolled back to last-good, sha256 %s in %s", short(p.lastGood.SHA256), p.lastGood.Path)
}

// restartNeeded tells whether f needs a restart to run, and why.
func (p *planner) restartNeeded(f *File, fromSHA string) (needed bool, why string) {
	switch {
	case p.o.Unit == nil:
		return false, "there is no unit"
	case !p.plan.ran:
		return false, "the unit is stopped, and stays so"
	case p.want.Restart == RestartNever:
		return false, "restart: never"
	case p.want.Restart == RestartAlways && p.want.State != Adopted:
		return true, p.restartReason(f, fromSHA)
	}
	switch runs := p.o.runs(f); {
	case runs == yes:
		return false, "the unit runs that executable already"
	case runs == no, fromSHA != f.SHA256, p.o.Pending != nil:
		return true, p.restartReason(f, fromSHA)
	}
	return false, "it is the script that is active already"
}

func (p *planner) restartReason(f *File, fromSHA string) string {
	switch {
	case len(p.o.Running) == 0:
		return "it does not run"
	case p.o.runs(f) == yes:
		return "restart: always"
	case fromSHA == f.SHA256:
		return "it runs another executable"
	}
	return "to run sha256 " + short(f.SHA256)
}

func healthDetail(h Health) string {
	detail := fmt.Sprintf("one process of it for %v, within %v", h.StableFor, h.Timeout)
	if h.TCP != "" {
		detail += ", accepting connections at " + h.TCP
	}
	if len(h.Command) > 0 {
		detail += fmt.Sprintf(", %s succeeding", filepath.Base(h.Command[0]))
	}
	return detail
}

func (p *planner) pending(f *File) {
	p.add(StepPending, p.want.stateFile(pendingName), "until the new process is confirmed", action{mark: Pending{
		Slot: f.Path, SHA256: f.SHA256, LastGood: p.real(RoleLastGood), Unit: p.want.Unit, Ran: p.plan.ran, BootID: p.o.Host.BootID,
	}})
}

// confirm records the result. Without a unit the version command was the
// health check; a unit that was stopped proves nothing.
func (p *planner) confirm(f *File, checked, switched bool) {
	proof := Proof("")
	switch {
	case checked, p.o.Unit == nil:
		proof = ProofHealthy
	case switched && p.o.runs(f) != yes:
		proof = ProofNotChecked
	}
	p.record(Record{Outcome: p.outcome, SHA256: f.SHA256, Version: p.versionOf(f), Proof: proof})
}

// confirmFiles records a result that says nothing about health.
func (p *planner) confirmFiles() {
	if p.plan.changes() {
		p.record(Record{Outcome: p.outcome, SHA256: p.active.SHA256, Version: p.o.Version})
	}
}

func (p *planner) record(r Record) {
	p.plan.Outcome = p.outcome
	if p.plan.wanted == "" {
		p.plan.wanted = r.SHA256
	}
	p.add(StepConfirm, p.want.stateFile(historyName), string(r.Outcome), action{record: p.o.from(r)})
}

func (p *planner) versionOf(f *File) string {
	switch c := p.o.Candidate; {
	case c != nil && c.SHA256 == f.SHA256:
		return c.Version
	case p.active != nil && p.active.SHA256 == f.SHA256:
		return p.o.Version
	}
	return versionOf(p.o.History, f.SHA256)
}

func (p *planner) pointLastGood(slot Role) {
	f := p.slots[slot]
	if p.linkNow(RoleLastGood) != f.Path || p.lastGood == nil || p.lastGood.Path != f.Path {
		p.point(StepLastGood, RoleLastGood, f.Path)
	}
	p.lastGood = f
}

func (p *planner) pointCurrent(f *File) {
	if p.current == nil || p.current.Path != f.Path || p.linkNow(RoleCurrent) != f.Path {
		p.point(StepCurrent, RoleCurrent, f.Path)
	}
	p.current = f
}

func (p *planner) pointPath() {
	current := p.real(RoleCurrent)
	if p.linkNow(RolePath) != current {
		p.point(StepPath, RolePath, current)
	}
}

func (p *planner) point(step string, role Role, to string) {
	p.add(step, p.path(role), "-> "+to, action{role: role, to: to})
}

// linkNow is what a link names after the steps so far.
func (p *planner) linkNow(role Role) string {
	for i := len(p.plan.Steps) - 1; i >= 0; i-- {
		if s := p.plan.Steps[i]; s.do.to != "" && s.do.role == role {
			return s.do.to
		}
	}
	return p.o.Entries[role].LinkTo
}

// slotOf is the slot that holds f, or roleCount.
func (p *planner) slotOf(f *File) Role {
	for _, r := range []Role{RoleBlue, RoleGreen} {
		if s := p.slots[r]; s != nil && f != nil && (s == f || s.Path == f.Path || s.Ino != 0 && s.same(f)) {
			return r
		}
	}
	return roleCount
}

// slotWith is the slot that holds a usable executable with this digest.
func (p *planner) slotWith(sha256 string) (Role, bool) {
	for _, r := range []Role{RoleBlue, RoleGreen} {
		if f := p.slots[r]; f != nil && f.SHA256 == sha256 && f.Mode&0o111 != 0 {
			return r, true
		}
	}
	return roleCount, false
}

func other(slot Role) Role {
	if slot == RoleBlue {
		return RoleGreen
	}
	return RoleBlue
}

func (p *planner) path(r Role) string { return p.want.Layout.at(r) }
func (p *planner) real(r Role) string { return p.o.Entries[r].Real }

func short(sha256 string) string { return sha256[:min(12, len(sha256))] }

// unixMode is a mode as chmod(1) writes it.
func unixMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}
