// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"fmt"
	"path/filepath"
	"strings"
)

// refuseAny returns the first refusal.
func refuseAny(checks ...func() *Error) *Error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func firstOf(refusals []*Error) *Error {
	if len(refusals) == 0 {
		return nil
	}
	return refusals[0]
}

func refuseWant(o *Observed, want Want) *Error {
	invalid := func(format string, args ...any) *Error {
		return &Error{Kind: KindInvalidArgs, Detail: fmt.Sprintf(format, args...)}
	}
	for r := range roleCount {
		if p := want.Layout.at(r); !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return invalid("the path for %s must be absolute and without . or .. in it: %q", r, p)
		}
	}
	switch want.State {
	case Present:
		if want.Candidate == nil && want.Checksum == "" {
			return invalid("state present needs a candidate, or the checksum of an executable in a slot")
		}
	case Adopted, RolledBack:
	default:
		return invalid("unknown state %q", want.State)
	}
	if want.Mode != nil && want.Mode.Perm()&0o111 == 0 {
		return invalid("with mode %04o nobody could execute %s", unixMode(*want.Mode), want.Layout.Path)
	}
	if want.Mode != nil && want.Mode.Perm()&0o002 != 0 {
		return invalid("with mode %04o anyone could overwrite %s", unixMode(*want.Mode), want.Layout.Path)
	}
	if want.Unit != "" && o.Unit == nil {
		return invalid("unit %s is named and there is no service to ask for it", want.Unit)
	}
	return nil
}

// refuseBusy leaves the host to another upgrader. One that can be waited for
// is no reason to refuse a plan.
func refuseBusy(o *Observed, want Want) *Error {
	if o.LockHolder != 0 && want.LockTimeout <= 0 {
		return lockBusy(want.LockPath, o.LockHolder)
	}
	if s := o.Signal; s != nil {
		detail := fmt.Sprintf("another upgrader's activation is not reported yet: %s exists", s.Path)
		if s.Operation != "" {
			detail += fmt.Sprintf(" (operation %q)", s.Operation)
		}
		return &Error{Kind: KindSignalPresent, Detail: detail, Hint: "wait until the restarted daemon has reported; the upgrader removes its own signal"}
	}
	return nil
}

func lockBusy(path string, holder int) *Error {
	by := "another upgrader"
	if holder > 0 {
		by = fmt.Sprintf("process %d", holder)
	}
	return &Error{Kind: KindLockBusy, Step: "lock", Detail: fmt.Sprintf("%s holds %s: an upgrade is in progress", by, path), Hint: "try again when it has ended, or set lock_timeout; never delete the lock file"}
}

func refuseUnit(o *Observed, want Want) *Error {
	u := o.Unit
	if u == nil {
		return nil
	}
	switch {
	case u.LoadState == "masked" || strings.HasPrefix(u.UnitFileState, "masked"):
		return &Error{Kind: KindUnitMasked, Detail: "unit " + u.Name + " is masked", Hint: "somebody has forbidden it to run; unmask it first if that is wanted"}
	case u.LoadState == "not-found":
		return &Error{Kind: KindUnitNotFound, Detail: "there is no unit " + u.Name, Hint: "check its name, or install its unit file first"}
	case u.LoadState != "loaded":
		return &Error{Kind: KindUnitNotFound, Detail: fmt.Sprintf("unit %s can't be used: %s (%s)", u.Name, u.LoadState, u.LoadError), Hint: "see `systemctl status " + u.Name + "`"}
	case !o.entrypoint():
		return &Error{
			Kind:   KindUnitEntrypoint,
			Detail: fmt.Sprintf("unit %s runs %s, neither %s nor %s (from %s)", u.Name, commands(u), want.Layout.Path, want.Layout.Current, strings.Join(append([]string{u.FragmentPath}, u.DropInPaths...), ", ")),
			Hint:   "a switch would not reach the daemon; make ExecStart name " + want.Layout.Path,
		}
	}
	return nil
}

// entrypoint tells whether the unit runs path or current, by itself or
// through a wrapper such as env(1) that takes it as an argument.
func (o *Observed) entrypoint() bool {
	for _, argv := range o.Unit.ExecStart {
		for _, word := range argv {
			if o.names(word, RolePath) || o.names(word, RoleCurrent) {
				return true
			}
		}
	}
	return false
}

// names tells whether a word is a name of the role, whatever links are on the
// way to its folder.
func (o *Observed) names(word string, r Role) bool {
	e := o.Entries[r]
	return word == e.Path || filepath.IsAbs(word) && linkTarget("/", word) == e.Real
}

func commands(u *Unit) string {
	var files []string
	for _, argv := range u.ExecStart {
		if len(argv) > 0 {
			files = append(files, argv[0])
		}
	}
	if len(files) == 0 {
		return "nothing"
	}
	return strings.Join(files, ", ")
}

func refuseLayout(o *Observed) *Error {
	for r := range roleCount {
		if err := refuseEntry(&o.Entries[r]); err != nil {
			return err
		}
		for s := range r {
			if o.Entries[r].Real == o.Entries[s].Real {
				return alias("%s and %s are the same path %s", s, r, o.Entries[r].Path)
			}
		}
	}
	blue, green := o.Entries[RoleBlue], o.Entries[RoleGreen]
	if blue.File.same(green.File) {
		return alias("the slots %s and %s are one file (hard links)", blue.Path, green.Path)
	}
	if o.ambiguous() {
		return &Error{Kind: KindLayoutConflict, Detail: fmt.Sprintf("both slots hold an executable and no link tells which of them is active (%s and %s)", blue.Path, green.Path), Hint: "point " + o.Entries[RoleCurrent].Path + " at the one that should run, or remove the other"}
	}
	return nil
}

// refusePending leaves an interrupted activation to a person where last-good is
// gone: to point it at what is active would call good what never proved it (I2).
func refusePending(o *Observed, want Want) *Error {
	lastGood := o.Entries[RoleLastGood]
	if o.Pending == nil || o.active() == nil || lastGood.File.usable() {
		return nil
	}
	return &Error{
		Kind:   KindPendingUnresolved,
		Detail: fmt.Sprintf("an activation was interrupted (%s) and nothing is known to work: %s: %s", want.stateFile(pendingName), lastGood.Path, lastGood.unusable()),
		Hint:   "find out which slot works, point " + lastGood.Path + " at it, and run again",
	}
}

func alias(format string, args ...any) *Error {
	return &Error{Kind: KindLayoutAlias, Detail: fmt.Sprintf(format, args...), Hint: "each of path, blue, green, current and last-good needs a name of its own"}
}

func refuseEntry(e *Entry) *Error {
	slot := e.Role == RoleBlue || e.Role == RoleGreen
	link := e.Role == RoleCurrent || e.Role == RoleLastGood
	hint := "move it away, or choose another layout"
	if e.Role == RolePath {
		hint = "path must name the executable itself, not the folder that it is in"
	}
	conflict := func(what string) *Error {
		return &Error{Kind: KindLayoutConflict, Detail: fmt.Sprintf("%s, where the %s belongs, %s", e.Path, roleWords(e.Role), what), Hint: hint}
	}
	switch {
	case e.Loop:
		return alias("%s: its links form a loop", e.Path)
	case e.Kind == OtherKind:
		return conflict("is " + e.What)
	case slot && e.Kind == SymbolicLink:
		return conflict("is a symbolic link to " + e.Link)
	case link && e.Kind == RegularFile:
		return conflict("is a file")
	case e.Kind == SymbolicLink && strings.HasPrefix(e.Fault, "it points to") && strings.Contains(e.Fault, "which is "):
		return conflict("does not lead to a file: " + e.Fault)
	case e.File != nil && e.File.Mode&0o002 != 0:
		return unsafePath(e.File.Path, "can be written by anyone")
	}
	return nil
}

func roleWords(r Role) string {
	switch r {
	case RoleBlue, RoleGreen:
		return r.String() + " slot"
	case RoleCurrent, RoleLastGood:
		return "link " + r.String()
	}
	return "executable"
}

// wantedDigest is the digest that is to be active.
func (p *planner) wantedDigest() (string, *Error) {
	c := p.o.Candidate
	if p.want.Candidate == nil || c == nil {
		return p.want.Checksum, nil
	}
	if c.refusal != nil && c.refusal.Kind == KindChecksumMismatch {
		return "", c.refusal
	}
	if a := p.active; a != nil && c.Ino != 0 && a.Dev == c.Dev && a.Ino == c.Ino {
		return "", &Error{Kind: KindCandidateInPlace, Detail: "the candidate " + p.want.Candidate.Name + " is the active file itself", Hint: "to manage what is there use state: adopted; to upgrade, name another file"}
	}
	return c.SHA256, nil
}

// refuseCandidate judges a candidate that is to be made active.
func (p *planner) refuseCandidate(wanted string) *Error {
	if c := p.o.Candidate; c != nil && c.refusal != nil {
		return c.refusal
	}
	proof := proofOf(p.o.History, wanted)
	p.because("%s", memoryWords(proof, p.want.Force))
	if !p.want.Force && proof == ProofRejected {
		return &Error{Kind: KindRejected, Detail: "this host has tried the candidate (sha256 " + short(wanted) + ") before and it did not become healthy" + rejectedWhy(p.o.History, wanted), Hint: "use another candidate, or force: true to try it again"}
	}
	return nil
}

// memoryWords says what this host remembers of a candidate.
func memoryWords(proof Proof, force bool) string {
	switch {
	case proof == "":
		return "this host has no record of running the candidate"
	case proof == ProofRejected && force:
		return "this host has rejected the candidate before, and force tries it again"
	}
	return "this host has recorded the candidate as " + string(proof) + " before"
}

func rejectedWhy(history []Record, sha256 string) string {
	for i := len(history) - 1; i >= 0; i-- {
		if r := history[i]; r.SHA256 == sha256 && r.Proof == ProofRejected {
			return fmt.Sprintf(" (%s: %s)", day(r.At), r.Detail)
		}
	}
	return ""
}

// refuseHost finds out what would stop the plan's steps half-way.
func refuseHost(o *Observed, p *planner) *Error {
	if !p.plan.changes() {
		return nil
	}
	touched := map[string]bool{p.want.stateFolder(): true, filepath.Dir(p.want.LockPath): true}
	for _, s := range p.plan.Steps {
		switch s.Step {
		case StepKeep, StepInstall, StepAttributes, StepLastGood, StepCurrent, StepPath:
			touched[filepath.Dir(p.real(s.do.role))] = true
			if e := o.Entries[s.do.role]; e.Kind == RegularFile && e.File != nil && e.File.sealed {
				return immutable(e.Path)
			}
		}
	}
	for _, f := range o.Folders {
		if !touched[f.Path] {
			continue
		}
		if err := refuseFolder(f, p); err != nil {
			return err
		}
	}
	return refuseSpace(o, p)
}

func immutable(path string) *Error {
	return &Error{Kind: KindImmutable, Detail: path + " is immutable or append-only (chattr)", Hint: "chattr -i -a it, if it may be changed"}
}

func refuseFolder(f Folder, p *planner) *Error {
	made, needed := 0, f.Path // how many folders the plan makes, and the one that it makes them in
	switch f.Path {
	case p.want.stateFolder():
		made, needed = 2, filepath.Dir(p.want.StateDir)
	case filepath.Dir(p.real(RoleBlue)):
		made, needed = 1, filepath.Dir(f.Path)
	}
	holdsSlots := f.Path == filepath.Dir(p.real(RoleBlue)) || f.Path == filepath.Dir(p.real(RoleGreen))
	switch {
	case f.missing > made:
		return &Error{Kind: KindLayoutConflict, Detail: "the folder " + needed + " does not exist", Hint: "create it first"}
	case f.ReadOnly:
		return &Error{Kind: KindReadOnly, Detail: f.Path + " is on a read-only file system", Hint: "choose a path and slot_dir that can be written, for instance below /opt or /var"}
	case f.sealed:
		return immutable(f.Path)
	case !f.writable:
		return &Error{Kind: KindNotPermitted, Detail: f.Path + " can't be written by this user", Hint: "run as root (become: true)"}
	case f.NoExec && holdsSlots:
		return &Error{Kind: KindNoExec, Detail: f.Path + " is on a file system mounted noexec: nothing in it can run", Hint: "choose a slot_dir on a file system that allows execution"}
	}
	return nil
}

// slack is the room for links, records and folder blocks beside the slots.
const slack = 64 << 10

// slackInodes is the room for temporary names and links.
const slackInodes = 8

func refuseSpace(o *Observed, p *planner) *Error {
	for _, f := range o.Folders {
		need := int64(0)
		for _, g := range o.Folders {
			if g.Dev == f.Dev {
				need += p.space[g.Path]
			}
		}
		if need == 0 && f.Path != p.want.stateFolder() {
			continue
		}
		if uint64(need)+slack > f.FreeBytes {
			return &Error{Kind: KindNoSpace, Detail: fmt.Sprintf("%s has %d bytes free and the new file needs %d while both slots exist", f.Path, f.FreeBytes, need+slack), Hint: "free some space there, or choose another slot_dir"}
		}
		if f.FreeInodes < slackInodes {
			return &Error{Kind: KindNoSpace, Detail: f.Path + " has no free inodes", Hint: "remove files there, or choose another slot_dir"}
		}
	}
	return nil
}
