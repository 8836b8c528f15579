// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Role is one of the five names of a layout.
type Role int

// The roles, in the order in which a plan looks at them.
const (
	RolePath Role = iota
	RoleBlue
	RoleGreen
	RoleCurrent
	RoleLastGood
	roleCount
)

func (r Role) String() string {
	return [...]string{"path", "blue", "green", "current", "last-good"}[r]
}

// at is the path of a role.
func (l Layout) at(r Role) string {
	return [...]string{l.Path, l.Blue, l.Green, l.Current, l.LastGood}[r]
}

// Observed is everything that Decide may know. Observe fills it and changes
// nothing on the host (I4).
type Observed struct {
	Entries    [roleCount]Entry
	Folders    []Folder // of the layout and of our own state
	Unit       *Unit    // nil without a Service
	Running    []Process
	Candidate  *CandidateSeen
	Pending    *Pending
	History    []Record
	Signal     *Signal
	LockHolder int      // PID; 0: nobody, -1: somebody who can't be named
	Leftovers  []string // temporary files of runs that were killed
	Version    string   // of the active executable, as far as it is known
	Host       HostFacts
	StateDir   string // links resolved
	Warnings   []string

	refusals []*Error // that the look itself came upon, in order
	memory   *memory
}

// HostFacts are what a plan needs to know of the machine and of this process.
type HostFacts struct {
	Machine string // uname -m
	UID     int
	GID     int
	BootID  string
}

// EntryKind says what stands at a name.
type EntryKind int

// The kinds.
const (
	Missing EntryKind = iota
	RegularFile
	SymbolicLink
	OtherKind // a folder, device, FIFO or socket
)

// Entry is what stands at the name of a role.
type Entry struct {
	Role   Role
	Path   string // as the layout has it
	Real   string // with the links on the way to its folder resolved
	Kind   EntryKind
	What   string // in a user's words
	Link   string // the link's text
	LinkTo string // the one name that the link names, its folder resolved
	File   *File  // the regular file that it is or resolves to
	Fault  string // why there is none, in a user's words
	Loop   bool
	print  fingerprint
}

// File is one regular file.
type File struct {
	Path    string // where it is, all links resolved
	Dev     uint64
	Ino     uint64
	Links   uint64
	Size    int64
	Mode    fs.FileMode // permission bits, setuid, setgid, sticky
	UID     int
	GID     int
	SHA256  string
	Script  bool
	Label   []byte // security.selinux
	Caps    []byte // security.capability
	sealed  bool   // immutable or append-only
	changed int64  // ctime in ns
}

// usable tells whether the kernel could run the file: an empty one is what a
// power cut leaves of a file that was not made durable.
func (f *File) usable() bool {
	return f != nil && f.Size > 0 && f.Mode&0o111 != 0
}

// same tells whether two observations are of one inode.
func (f *File) same(g *File) bool {
	return f != nil && g != nil && f.Dev == g.Dev && f.Ino == g.Ino
}

// unusable says in a user's words why nothing can be run at e.
func (e *Entry) unusable() string {
	switch {
	case e.File == nil:
		return e.Fault
	case e.File.Size == 0:
		return "it is empty"
	}
	return "it is not executable"
}

// print is the fingerprint of a name: a step that replaces the name looks
// again and stops when it differs.
type fingerprint struct {
	dev, ino uint64
	size     int64
	changed  int64
	link     string
}

// Process is a process of the unit, by the executable that it runs.
type Process struct {
	PID    int
	Exe    string // as the kernel names it, " (deleted)" included
	Dev    uint64
	Ino    uint64
	SHA256 string
}

// CandidateSeen is the candidate as it was observed.
type CandidateSeen struct {
	CandidateFacts
	Dev, Ino uint64
	format   format
	refusal  *Error // why it can't be used
	warning  string
	name     string // for messages
	private  bool   // others can write to it: it is only run from a checked copy
}

// memory is what one call has found out about files so far: no file is read
// twice, or its version command run twice, unless it has changed in between.
type memory struct {
	digests  map[fingerprint]string
	versions map[versionKey]versionRun
	hashing  time.Duration

	// What the last record says of the slots, by fingerprint.String. It is good
	// enough to leave a host alone, and never to change it: strict does without.
	recorded map[string]string
	strict   bool
}

type versionKey struct{ sha256, wanted string }

func newMemory() *memory {
	return &memory{digests: map[fingerprint]string{}, versions: map[versionKey]versionRun{}}
}

// Observe looks at the host. The error is for what makes looking impossible;
// what a plan has to refuse is in the observation.
func Observe(ctx context.Context, host Host, service Service, want Want) (*Observed, error) {
	return observe(ctx, host, service, want, newMemory())
}

func observe(ctx context.Context, host Host, service Service, want Want, m *memory) (*Observed, error) {
	l := look{host: host, want: want, o: &Observed{memory: m}, memory: m, safe: map[string]bool{}}
	return l.all(ctx, service)
}

// look is one look at the host.
type look struct {
	host   Host
	want   Want
	o      *Observed
	memory *memory
	safe   map[string]bool // folders that were judged already
}

func (l *look) all(ctx context.Context, service Service) (*Observed, error) {
	var err error
	if l.o.Host, err = hostFacts(); err != nil {
		return nil, err
	}
	if l.o.StateDir, err = l.resolveFolder(l.want.StateDir); err != nil {
		return nil, err
	}
	l.want.StateDir = l.o.StateDir
	l.history()
	for r := range roleCount {
		if err := l.entry(r); err != nil {
			return nil, err
		}
	}
	if err := l.unit(ctx, service); err != nil {
		return nil, err
	}
	if err := l.state(); err != nil {
		return nil, err
	}
	l.folders()
	if err := l.candidate(ctx); err != nil {
		return nil, err
	}
	l.activeVersion(ctx)
	return l.o, ctx.Err()
}

func (l *look) refuse(e *Error) { l.o.refusals = append(l.o.refusals, e) }

func (l *look) warn(format string, args ...any) {
	l.o.Warnings = append(l.o.Warnings, fmt.Sprintf(format, args...))
}

func hostFacts() (HostFacts, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return HostFacts{}, lookError("this machine", err)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // for records only
	return HostFacts{
		Machine: unix.ByteSliceToString(u.Machine[:]),
		UID:     os.Geteuid(),
		GID:     os.Getegid(),
		BootID:  strings.TrimSpace(string(boot)),
	}, nil
}

// cause leaves out the path, which the message has already.
func cause(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

func lookError(what string, err error) *Error {
	e := &Error{Kind: KindIO, Step: "observe", Detail: "can't look at " + what, Err: cause(err)}
	if errors.Is(err, fs.ErrPermission) {
		e.Kind, e.Hint = KindNotPermitted, "run as root (become: true)"
	}
	return e
}

// entry looks at the name of one role and at what it resolves to.
func (l *look) entry(r Role) error {
	e := &l.o.Entries[r]
	*e = Entry{Role: r, Path: l.want.Layout.at(r)}
	folder, err := l.resolveFolder(filepath.Dir(e.Path))
	if err != nil {
		return err
	}
	e.Real = filepath.Join(folder, filepath.Base(e.Path))
	info, err := os.Lstat(e.Real)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.What, e.Fault = Missing, "missing", "it does not exist"
		return nil
	case errors.Is(err, unix.ENOTDIR):
		l.refuse(&Error{Kind: KindLayoutConflict, Step: "observe", Detail: fmt.Sprintf("%s, on the way to %s, is not a folder", folder, e.Path), Hint: "choose another path or slot_dir"})
		return nil
	case err != nil:
		return lookError(e.Path, err)
	}
	e.What = fileKind(info.Mode())
	switch info.Mode().Type() {
	case 0:
		e.Kind = RegularFile
		e.File, err = l.file(e.Real)
	case fs.ModeSymlink:
		e.Kind = SymbolicLink
		err = l.follow(e)
	default:
		e.Kind, e.Fault = OtherKind, "it is "+e.What
	}
	e.print = printOf(info, e.Link)
	return err
}

// follow resolves the link at e.
func (l *look) follow(e *Entry) error {
	var err error
	if e.Link, err = os.Readlink(e.Real); err != nil {
		return lookError(e.Path, err)
	}
	e.LinkTo = linkTarget(e.Real, e.Link)
	final, err := filepath.EvalSymlinks(e.Real)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		e.Fault = "it points to " + e.Link + ", which does not exist"
		return nil
	case err != nil && isLoop(e.Real):
		e.Fault, e.Loop = "its links form a loop", true
		return nil
	case err != nil:
		return lookError(e.Path, err)
	}
	info, err := os.Lstat(final)
	if err != nil {
		return lookError(final, err)
	}
	if !info.Mode().IsRegular() {
		e.Fault = fmt.Sprintf("it points to %s, which is %s", final, fileKind(info.Mode()))
		return nil
	}
	if err := l.judgeFolders(filepath.Dir(final)); err != nil {
		return err
	}
	e.File, err = l.file(final)
	return err
}

// isLoop asks the kernel, because EvalSymlinks reports a loop as plain text.
func isLoop(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, unix.ELOOP)
}

// linkTarget is the name that a link names: its folder resolved, its last
// part not. A folder that does not exist stays as it is written.
func linkTarget(at, text string) string {
	target := text
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(at), target)
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(target)); err == nil {
		return filepath.Join(folder, filepath.Base(target))
	}
	return filepath.Clean(target)
}

func printOf(info fs.FileInfo, link string) fingerprint {
	st := info.Sys().(*unixStat)
	return fingerprint{dev: st.Dev, ino: st.Ino, size: st.Size, changed: st.Ctim.Nano(), link: link}
}

// String is how a record names the state of an inode.
func (p fingerprint) String() string {
	return fmt.Sprintf("%d:%d:%d:%d", p.dev, p.ino, p.size, p.changed)
}

// file reads the facts of the regular file at a path without links.
func (l *look) file(path string) (*File, error) {
	f, err := openToRead(path, unix.O_NOFOLLOW)
	if err != nil {
		return nil, lookError(path, err)
	}
	defer f.Close()
	facts, err := l.factsOf(f)
	if err != nil {
		return nil, lookError(path, err)
	}
	facts.Path = path
	return facts, nil
}

func (l *look) factsOf(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is %s, not a file", fileKind(info.Mode()))
	}
	sum, err := l.digest(f, info)
	if err != nil {
		return nil, err
	}
	var head [2]byte
	_, _ = f.ReadAt(head[:], 0) // an empty file is no script
	st := info.Sys().(*unixStat)
	return &File{
		Dev: st.Dev, Ino: st.Ino, Links: uint64(st.Nlink), //nolint:unconvert // 32 bits on some architectures
		Size: st.Size, Mode: modeOf(info.Mode()), UID: int(st.Uid), GID: int(st.Gid),
		SHA256: sum, Script: string(head[:]) == "#!",
		Label: xattr(f, xattrLabel), Caps: xattr(f, xattrCaps),
		sealed: isSealed(f), changed: st.Ctim.Nano(),
	}, nil
}

func modeOf(m fs.FileMode) fs.FileMode {
	return m & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}

// digest is the SHA-256 of f, computed once for each state of the inode.
func (l *look) digest(f *os.File, info fs.FileInfo) (string, error) {
	key := printOf(info, "")
	if sum, ok := l.memory.digests[key]; ok {
		return sum, nil
	}
	if sum, ok := l.memory.recorded[key.String()]; ok {
		return sum, nil
	}
	begin := l.host.Now()
	sum, err := hashFile(f)
	l.memory.hashing += l.host.Now().Sub(begin)
	if err != nil {
		return "", err
	}
	l.memory.digests[key] = sum
	return sum, nil
}

const (
	xattrLabel = "security.selinux"
	xattrCaps  = "security.capability"
)

// xattr is nil where the attribute or the support for it is missing.
func xattr(f *os.File, name string) []byte {
	buf := make([]byte, 1024)
	n, err := unix.Fgetxattr(int(f.Fd()), name, buf)
	if err != nil || n == 0 {
		return nil
	}
	return buf[:n]
}

// isSealed tells whether chattr +i or +a forbids to replace f.
func isSealed(f *os.File) bool {
	const immutable, appendOnly = 0x10, 0x20 // FS_IMMUTABLE_FL, FS_APPEND_FL of linux/fs.h
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&(immutable|appendOnly) != 0
}

// history reads what was done here before, and with it the digests of what has
// not changed since.
func (l *look) history() {
	var err error
	if l.o.History, err = readHistory(l.want.stateFile(historyName)); err != nil {
		l.warn("can't read %s: %v", l.want.stateFile(historyName), err)
	}
	if last := l.o.lastResult(); last != nil && !l.memory.strict {
		l.memory.recorded = last.Digests
	}
	for i := range l.o.History {
		l.o.History[i].Digests = nil
	}
}

// state reads the marker, the lock's holder and the signal.
func (l *look) state() error {
	var err error
	if l.o.Pending, err = readPending(l.want.stateFile(pendingName)); err != nil {
		return lookError(l.want.stateFile(pendingName), err)
	}
	if l.o.Signal, err = readSignal(l.want.SignalPath); err != nil {
		return lookError(l.want.SignalPath, err)
	}
	l.o.LockHolder = lockHolder(l.want.LockPath)
	l.leftovers()
	return nil
}

// leftovers finds the temporary files that a killed run left.
func (l *look) leftovers() {
	seen := map[string]bool{}
	for r := range roleCount {
		l.leftoversOf(l.o.Entries[r].Real, seen)
	}
	l.leftoversOf(l.want.stateFile(pendingName), seen)
	l.leftoversOf(l.want.stateFile(historyName), seen)
}

func (l *look) leftoversOf(path string, seen map[string]bool) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // no folder, no leftovers; a forbidden one is found out elsewhere
	}
	prefix := tempPrefix(filepath.Base(path))
	for _, e := range entries {
		full := filepath.Join(filepath.Dir(path), e.Name())
		if strings.HasPrefix(e.Name(), prefix) && !e.IsDir() && !seen[full] {
			seen[full] = true
			l.o.Leftovers = append(l.o.Leftovers, full)
		}
	}
}

// tempPrefix begins the names of all temporary files for base. A base near
// the limit of 255 bytes is cut: the prefix need not be whole to be ours.
func tempPrefix(base string) string {
	const most = 200
	return "." + base[:min(len(base), most)] + tempMarker
}
