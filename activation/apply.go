// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// applier carries out one plan.
type applier struct {
	host    Host
	service Service
	plan    Plan
	want    Want
	o       *Observed

	folders    map[string]*os.File
	prints     map[string]fingerprint // what is expected at each name of the layout
	restarting *restarting            // until its job is done
	restarted  bool                   // a restart was asked for
	marked     bool                   // the pending marker was written
	confirmed  bool                   // the new process was healthy
	changed    bool
	warnings   []string
	timing     Timing
	downSince  time.Time
}

// Apply carries out the plan's steps in their order, and nothing else; when
// one fails it may undo what was done. The caller holds the lock.
func Apply(ctx context.Context, host Host, service Service, plan Plan) Result {
	a := &applier{
		host: host, service: service, plan: plan, want: plan.want, o: plan.o,
		folders: map[string]*os.File{}, prints: map[string]fingerprint{},
	}
	for _, e := range plan.o.Entries {
		a.prints[e.Real] = e.print
	}
	defer a.close()
	return a.result(ctx, a.run(ctx))
}

func (a *applier) close() {
	a.forgetRestart()
	for _, f := range a.folders {
		_ = f.Close() // only its entries were written, and they are synced
	}
}

func (a *applier) run(ctx context.Context) *Error {
	for _, s := range a.plan.Steps {
		if s.Step == StepPending {
			// From here on the host must not be left half-way: the activation
			// ends confirmed or rolled back, whoever has lost interest (I7).
			if err := cancelled(ctx); err != nil {
				return err
			}
			ctx = context.WithoutCancel(ctx)
		}
		if err := cancelled(ctx); err != nil {
			return err
		}
		if err := a.step(ctx, s); err != nil {
			return asError(err, s)
		}
		// The marker alone is withdrawn again.
		a.changed = a.changed || s.Changes && s.Step != StepPending
	}
	return nil
}

func cancelled(ctx context.Context) *Error {
	if ctx.Err() == nil {
		return nil
	}
	return &Error{Kind: KindCancelled, Detail: "the activation was cancelled before the switch", Hint: "run it again when it suits"}
}

// asError gives an error of the system its kind.
func asError(err error, s Step) *Error {
	var e *Error
	if errors.As(err, &e) {
		if e.Step == "" {
			e.Step = s.Step
		}
		return e
	}
	e = &Error{Kind: KindIO, Step: s.Step, Detail: fmt.Sprintf("step %s of %s failed", s.Step, s.Target), Err: err}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Kind, e.Hint = KindNoSpace, "free some space there and run it again"
	case errors.Is(err, unix.EROFS):
		e.Kind, e.Hint = KindReadOnly, "the file system has become read-only: look for disk errors in the kernel's log"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Hint = KindNotPermitted, "run as root (become: true); as root, a security policy refuses it"
	case errors.Is(err, context.Canceled):
		e.Kind = KindCancelled
	}
	return e
}

func (a *applier) step(ctx context.Context, s Step) error {
	switch s.Step {
	case StepSweep:
		return a.sweep(s.do.names)
	case StepFolder:
		return a.makeFolder(s.Target, 0o755)
	case StepVerify:
		return nil // Observe did it; what is installed is verified again by install
	case StepHealth:
		return a.healthy(ctx, a.plan.wanted)
	case StepKeep:
		return a.keep(s.do)
	case StepInstall:
		return a.install(ctx, s.do)
	case StepAttributes:
		return a.attributes(s.do)
	case StepLastGood, StepCurrent, StepPath:
		return a.point(s.do.role, s.do.to)
	case StepReload:
		return a.reload(ctx)
	case StepPending:
		return a.mark(s.do.mark)
	case StepRestart:
		return a.restart(ctx)
	case StepConfirm:
		return a.confirm(s.do.record)
	}
	return &Error{Kind: KindInternal, Detail: "unknown step " + s.Step}
}

// folder opens a folder once, and makes sure that it is the one that was
// observed.
func (a *applier) folder(path string) (*os.File, error) {
	if f := a.folders[path]; f != nil {
		return f, nil
	}
	f, err := a.host.OpenFolder(path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for _, seen := range a.o.Folders {
		if seen.Path == path && seen.Exists && (seen.Dev != st.Dev || seen.Ino != st.Ino) {
			return nil, errors.Join(underfoot(path), f.Close())
		}
	}
	a.folders[path] = f
	return f, nil
}

func underfoot(path string) *Error {
	return &Error{Kind: KindChangedUnderfoot, Detail: path + " has changed since it was looked at", Hint: "something else changes this host, without taking the lock; find it, then run again"}
}

// unchanged stops a step whose name no longer stands for what was observed.
func (a *applier) unchanged(path string) error {
	now, err := a.look(path)
	if err != nil {
		return err
	}
	if now != a.prints[path] {
		return underfoot(path)
	}
	return nil
}

func (a *applier) look(path string) (fingerprint, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fingerprint{}, nil
	}
	if err != nil {
		return fingerprint{}, err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return fingerprint{}, err
		}
	}
	return printOf(info, link), nil
}

// replace renames a temporary name over the role's and makes that durable.
func (a *applier) replace(folder *os.File, temp, path string) error {
	if err := a.unchanged(path); err != nil {
		return err
	}
	if err := a.host.Rename(folder, temp, filepath.Base(path)); err != nil {
		return err
	}
	a.changed = true
	was := a.prints[path]
	var err error
	if a.prints[path], err = a.look(path); err != nil {
		return err
	}
	if err := a.lostName(was); err != nil {
		return err
	}
	return a.host.Sync(folder)
}

// lostName looks again at the other names of an inode that has lost one, which
// shows in its ctime.
func (a *applier) lostName(was fingerprint) error {
	for path, p := range a.prints {
		if was.ino == 0 || p != was {
			continue
		}
		now, err := a.look(path)
		if err != nil {
			return err
		}
		if now.dev != was.dev || now.ino != was.ino || now.size != was.size {
			return underfoot(path)
		}
		a.prints[path] = now
	}
	return nil
}

func tempName(path string) string {
	return fmt.Sprintf("%s%08x", tempPrefix(filepath.Base(path)), rand.Uint32()) //nolint:gosec // only to be unused: it is created with O_EXCL
}

// discard removes a temporary file. One that can't be removed is swept by the
// next run.
func (a *applier) discard(folder *os.File, temp string) {
	_ = a.host.Unlink(folder, temp)
}

func (a *applier) sweep(names []string) error {
	for _, name := range names {
		folder, err := a.folder(filepath.Dir(name))
		if err != nil {
			return err
		}
		if err := a.host.Unlink(folder, filepath.Base(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// makeFolder makes a folder whose parent exists.
func (a *applier) makeFolder(path string, mode fs.FileMode) error {
	parent, err := a.folder(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := a.host.Mkdir(parent, filepath.Base(path)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := a.folder(path)
	if err != nil {
		return err
	}
	if err := a.host.Chmod(f, mode); err != nil { // whatever the umask
		return err
	}
	return a.host.Sync(parent)
}

// install puts the candidate into a slot: a copy in the slot's own folder,
// durable and verified, then one rename (I1, I3).
func (a *applier) install(ctx context.Context, do action) error {
	check := func(f *os.File) error {
		return a.verifyCopy(ctx, f)
	}
	return a.copyInto(do, a.want.Candidate.file, a.o.Candidate.SHA256, check)
}

// verifyCopy runs the version command where the daemon will run from. Observe
// has run it already, unless the version was known, but from another place.
func (a *applier) verifyCopy(ctx context.Context, f *os.File) error {
	run := runVersion(ctx, a.host, f, a.want, "")
	if run.err != nil {
		return run.err
	}
	return nil
}

// keep puts an executable that is on this host into a slot.
func (a *applier) keep(do action) error {
	if do.source == fromLink {
		return a.linkInto(do)
	}
	src, err := os.Open(do.file.Path)
	if err != nil {
		return err
	}
	defer src.Close()
	return a.copyInto(do, src, do.file.SHA256, func(*os.File) error { return nil })
}

// copyInto copies src to the slot of do; the copy must have the digest.
func (a *applier) copyInto(do action, src *os.File, sha256 string, check func(*os.File) error) error {
	slot := a.o.Entries[do.role].Real
	folder, err := a.folder(filepath.Dir(slot))
	if err != nil {
		return err
	}
	temp := tempName(slot)
	f, err := a.host.Create(folder, temp)
	if err != nil {
		return err
	}
	begin := a.host.Now()
	f, err = a.fill(f, src, do.attrs, sha256)
	a.timing.Copy += a.host.Now().Sub(begin).Milliseconds()
	if err == nil {
		err = check(f)
	}
	if err == nil {
		err = a.replace(folder, temp, slot)
	}
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		a.discard(folder, temp)
		return err
	}
	a.o.memory.digests[a.prints[slot]] = sha256
	return nil
}

// fill writes the new file and returns a read-only handle on it, once its
// content is durable and was read back. It closes f.
func (a *applier) fill(f, src *os.File, attrs attributes, sha256 string) (*os.File, error) {
	sum, _, err := a.host.Copy(f, src)
	if err == nil && sum != sha256 {
		err = underfoot(src.Name())
	}
	if err == nil {
		err = a.setAttributes(f, attrs)
	}
	if err == nil {
		err = a.host.Sync(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f, err = a.host.Reopen(f)
	if err != nil {
		return f, err
	}
	begin := a.host.Now()
	written, err := hashFile(f)
	a.timing.Hash += a.host.Now().Sub(begin).Milliseconds()
	if err == nil && written != sha256 {
		err = &Error{Kind: KindIO, Detail: fmt.Sprintf("what was written to %s reads back with another digest", f.Name()), Hint: "the disk or its file system loses data: look for errors in the kernel's log"}
	}
	return f, err
}

// setAttributes sets the owner first, because that clears setuid bits and
// capabilities.
func (a *applier) setAttributes(f *os.File, attrs attributes) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st := info.Sys().(*unixStat)
	if int(st.Uid) != attrs.uid || int(st.Gid) != attrs.gid {
		if err := a.host.Chown(f, attrs.uid, attrs.gid); err != nil {
			return err
		}
	}
	if err := a.host.Chmod(f, attrs.mode); err != nil {
		return err
	}
	if err := a.carry(f, xattrLabel, attrs.label); err != nil {
		return err
	}
	return a.carry(f, xattrCaps, attrs.caps)
}

// carry sets an extended attribute. A host that refuses gets a warning: the
// daemon's health decides whether it can do without.
func (a *applier) carry(f *os.File, name string, value []byte) error {
	if value == nil || string(xattr(f, name)) == string(value) {
		return nil
	}
	err := a.host.SetXattr(f, name, value)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, fs.ErrPermission) {
		a.warnings = append(a.warnings, fmt.Sprintf("%s of the replaced executable could not be carried over: %v", name, err))
		return nil
	}
	return err
}

// linkInto gives path's plain file its slot's name too: the process that runs
// it then runs what is in the slot.
func (a *applier) linkInto(do action) error {
	slot, plain := a.o.Entries[do.role].Real, a.o.Entries[RolePath].Real
	from, err := a.folder(filepath.Dir(plain))
	if err != nil {
		return err
	}
	folder, err := a.folder(filepath.Dir(slot))
	if err != nil {
		return err
	}
	if err := a.unchanged(plain); err != nil {
		return err
	}
	file, err := a.host.OpenFile(from, filepath.Base(plain))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := a.host.Sync(file); err != nil { // whoever wrote it may not have
		return err
	}
	temp := tempName(slot)
	if err := a.host.Link(file, folder, temp); err != nil {
		return err
	}
	if err := a.replace(folder, temp, slot); err != nil {
		a.discard(folder, temp)
		return err
	}
	// The new link and its renaming show in the inode that path names too.
	now, err := a.look(plain)
	if err != nil {
		return err
	}
	if was := a.prints[plain]; now.dev != was.dev || now.ino != was.ino || now.size != was.size {
		return underfoot(plain)
	}
	a.prints[plain] = now
	return nil
}

func (a *applier) attributes(do action) error {
	slot := a.o.Entries[do.role].Real
	folder, err := a.folder(filepath.Dir(slot))
	if err != nil {
		return err
	}
	if err := a.unchanged(slot); err != nil {
		return err
	}
	f, err := a.host.OpenFile(folder, filepath.Base(slot))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := a.setAttributes(f, do.attrs); err != nil {
		return err
	}
	if err := a.host.Sync(f); err != nil {
		return err
	}
	a.prints[slot], err = a.look(slot)
	return err
}

// point makes a role's name a link, at one instant. A link is never pointed
// at something that can't be run.
func (a *applier) point(role Role, to string) error {
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || info.Size() == 0 {
		return underfoot(to)
	}
	path := a.o.Entries[role].Real
	folder, err := a.folder(filepath.Dir(path))
	if err != nil {
		return err
	}
	temp := tempName(path)
	if err := a.host.Symlink(to, folder, temp); err != nil {
		return err
	}
	if err := a.replace(folder, temp, path); err != nil {
		a.discard(folder, temp)
		return err
	}
	return nil
}

// reload makes the manager read the unit's files, which may show that the
// unit does not run what this plan switches.
func (a *applier) reload(ctx context.Context) error {
	failed := func(err error) error {
		return &Error{Kind: KindReloadFailed, Detail: "systemd could not read its unit files again (daemon-reload)", Err: err, Hint: "run systemctl daemon-reload by hand and see its message"}
	}
	if err := a.service.Reload(ctx); err != nil {
		return failed(err)
	}
	u, err := a.service.Inspect(ctx)
	if err != nil {
		return failed(err)
	}
	fresh := *a.o
	fresh.Unit = &u
	if refusal := refuseUnit(&fresh, a.want); refusal != nil {
		return refusal
	}
	return nil
}

// stateFolder opens our own folder, and makes it where it is missing.
func (a *applier) stateFolder() (*os.File, error) {
	path := a.want.stateFolder()
	if f, err := a.folder(path); !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	var missing []string
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil || at == "/" {
			break
		}
		missing = append(missing, at)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := a.makeFolder(missing[i], 0o700); err != nil {
			return nil, err
		}
	}
	return a.folder(path)
}

// writeState replaces one of our own files.
func (a *applier) writeState(name string, data []byte) error {
	folder, err := a.stateFolder()
	if err != nil {
		return err
	}
	temp := tempName(name)
	f, err := a.host.Create(folder, temp)
	if err != nil {
		return err
	}
	if err = a.host.Write(f, data); err == nil {
		err = a.host.Sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = a.host.Rename(folder, temp, name)
	}
	if err != nil {
		a.discard(folder, temp)
		return err
	}
	return a.host.Sync(folder)
}

// mark makes "switched and not confirmed" durable before anything is switched.
func (a *applier) mark(m Pending) error {
	m.At = a.host.Now().UTC()
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	a.marked = true
	return a.writeState(pendingName, append(data, '\n'))
}

// unmark removes the marker: what current resolves to is confirmed.
func (a *applier) unmark() error {
	folder, err := a.stateFolder()
	if err != nil {
		return err
	}
	if err := a.host.Unlink(folder, pendingName); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return a.host.Sync(folder)
}

// confirm writes the record first: a marker too many is settled by the next
// run, a proof too few is not. A proof that can't be written does not take a
// healthy process down again.
func (a *applier) confirm(r Record) error {
	a.confirmed = r.Proof == ProofHealthy
	err := a.writeHistory(r)
	if err != nil && !a.confirmed {
		return err
	}
	if err != nil {
		a.warnings = append(a.warnings, fmt.Sprintf("%s could not be written (%v): this host does not remember this activation", a.want.stateFile(historyName), err))
	}
	return a.unmark()
}

// settled is how old an inode's last change must be for its digest to be
// recorded: one that comes within the same tick of the file system's clock would
// not show. Two seconds is the coarsest one.
const settled = 2 * time.Second

// settledDigests are the digests of what is in the slots, by the state of the inodes.
func (a *applier) settledDigests(now time.Time) map[string]string {
	digests := map[string]string{}
	for _, r := range []Role{RoleBlue, RoleGreen} {
		info, err := os.Lstat(a.o.Entries[r].Real)
		if err != nil {
			continue // an empty slot
		}
		key := printOf(info, "")
		sum, known := a.o.memory.digests[key]
		if known && now.Sub(time.Unix(0, key.changed)) >= settled {
			digests[key.String()] = sum
		}
	}
	return digests
}

func (a *applier) writeHistory(r Record) error {
	r.At = a.host.Now().UTC()
	r.Digests = a.settledDigests(r.At)
	data, err := encodeHistory(append(a.o.History, r))
	if err != nil {
		return err
	}
	return a.writeState(historyName, data)
}
