// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

type unixStat = syscall.Stat_t

func hashFile(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, onlyReader{io.NewSectionReader(f, 0, 1<<62)}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// onlyReader hides WriteTo, so that the buffer's size is ours.
type onlyReader struct{ io.Reader }

// Folder is one folder that a plan may write to.
type Folder struct {
	Path       string // links resolved
	Exists     bool
	Dev, Ino   uint64
	ReadOnly   bool
	NoExec     bool
	FreeBytes  uint64
	FreeInodes uint64 // 1<<62 where the file system does not count them
	BlockSize  uint64
	missing    int // how many folders of Path are still to be made
	sealed     bool
	writable   bool
}

// folders looks at every folder that a plan may write to.
func (l *look) folders() {
	seen := map[string]bool{}
	for r := range roleCount {
		l.folder(filepath.Dir(l.o.Entries[r].Real), seen)
	}
	l.folder(l.want.stateFolder(), seen)
	l.folder(filepath.Dir(l.want.LockPath), seen)
	for _, path := range []string{l.want.stateFolder(), filepath.Dir(l.want.LockPath)} {
		if err := l.judgeFolders(path); err != nil {
			l.refuse(asError(err, Step{Step: "observe", Target: path}))
		}
	}
}

func (l *look) folder(path string, seen map[string]bool) {
	if seen[path] {
		return
	}
	seen[path] = true
	f := Folder{Path: path}
	// A folder that is still to be made has its parent's limits.
	at := path
	for ; at != "/"; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			break
		}
		f.missing++
	}
	f.Exists = f.missing == 0
	var st unix.Stat_t
	var sf unix.Statfs_t
	if err := errors.Join(unix.Stat(at, &st), unix.Statfs(at, &sf)); err != nil {
		l.refuse(lookError(path, err))
		return
	}
	f.Dev, f.Ino = st.Dev, st.Ino
	f.ReadOnly, f.NoExec = sf.Flags&unix.ST_RDONLY != 0, sf.Flags&unix.ST_NOEXEC != 0
	f.BlockSize = uint64(max(sf.Bsize, 512))
	f.FreeBytes, f.FreeInodes = sf.Bavail*f.BlockSize, sf.Ffree
	if l.o.Host.UID == 0 {
		f.FreeBytes = sf.Bfree * f.BlockSize // root may use the reserve
	}
	if sf.Files == 0 {
		f.FreeInodes = 1 << 62
	}
	f.writable = unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
	if open, err := os.Open(at); err == nil {
		f.sealed = isSealed(open)
		_ = open.Close()
	}
	l.o.Folders = append(l.o.Folders, f)
}

// resolveFolder resolves every link on the way to a folder and judges each
// folder that it passes.
func (l *look) resolveFolder(path string) (string, error) {
	if err := l.judgeFolders(path); err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.resolveMissing(path)
	case errors.Is(err, unix.ENOTDIR):
		return path, nil
	case err != nil:
		return "", lookError(path, err)
	}
	return resolved, l.judgeFolders(resolved)
}

// resolveMissing resolves the way to a folder that is still to be made. A
// dangling link stays as it is.
func (l *look) resolveMissing(path string) (string, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	parent, err := l.resolveFolder(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// judgeFolders refuses a way to path on which others could change names:
// whoever may write to a folder, or owns it, decides what root runs later.
func (l *look) judgeFolders(path string) error {
	if l.safe[path] {
		return nil
	}
	l.safe[path] = true
	if path != "/" {
		if err := l.judgeFolders(filepath.Dir(path)); err != nil {
			return err
		}
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return lookError(path, err)
	}
	fault, group := l.judge(info)
	if fault != "" {
		l.refuse(unsafePath(path, fault))
	}
	if group {
		l.warn("%s can be written by its group", path)
	}
	return nil
}

func unsafePath(path, fault string) *Error {
	return &Error{
		Kind: KindUnsafePath, Step: "observe", Detail: path + " " + fault,
		Hint: "whoever can change it decides what root runs: give it to root and take the write permission away, or choose another path",
	}
}

// judge says what is wrong with the owner or the mode of a name on the way,
// and whether its group may write.
func (l *look) judge(info fs.FileInfo) (fault string, group bool) {
	st := info.Sys().(*unixStat)
	stickyRoot := info.Mode()&fs.ModeSticky != 0 && st.Uid == 0
	switch {
	case st.Uid != 0 && int(st.Uid) != l.o.Host.UID:
		return fmt.Sprintf("belongs to user %d, who is neither root nor the user that this runs as", st.Uid), false
	case info.Mode()&fs.ModeSymlink != 0:
		return "", false // its mode means nothing
	case info.Mode().Perm()&0o002 != 0 && !stickyRoot:
		return "can be written by anyone", false
	}
	return "", info.Mode().Perm()&0o020 != 0 && st.Gid != 0
}

// unit looks at the unit and at what its processes run.
func (l *look) unit(ctx context.Context, service Service) error {
	if service == nil {
		return nil
	}
	u, err := service.Inspect(ctx)
	if err != nil {
		return &Error{Kind: KindIO, Step: "observe", Detail: "can't ask for unit " + l.want.Unit, Err: err}
	}
	l.o.Unit = &u
	for _, pid := range processes(u) {
		if p := l.process(pid); p != nil {
			l.o.Running = append(l.o.Running, *p)
		}
	}
	return nil
}

// processesMost bounds how many processes of a unit are looked at.
const processesMost = 64

// processes are the PIDs of the unit, its main process first.
func processes(u Unit) []int {
	var pids []int
	if u.MainPID > 0 {
		pids = append(pids, u.MainPID)
	}
	for _, pid := range cgroupPIDs(u.ControlGroup) {
		if pid != u.MainPID && len(pids) < processesMost {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cgroupPIDs looks in the places where the three set-ups of cgroups (unified,
// hybrid, legacy) keep systemd's own tree.
func cgroupPIDs(group string) []int {
	if group == "" {
		return nil
	}
	for _, tree := range []string{"", "systemd", "unified"} {
		data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", tree, group, "cgroup.procs"))
		if err != nil {
			continue
		}
		var pids []int
		for _, word := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	return nil
}

// process is nil for a process that has ended or may not be looked at.
func (l *look) process(pid int) *Process {
	f, err := os.Open(exePath(pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	facts, err := l.factsOf(f)
	if err != nil {
		return nil
	}
	exe, _ := os.Readlink(exePath(pid)) // a process that has ended since has no name
	return &Process{PID: pid, Exe: exe, Dev: facts.Dev, Ino: facts.Ino, SHA256: facts.SHA256}
}

func exePath(pid int) string { return fmt.Sprintf("/proc/%d/exe", pid) }

// lockHolder finds who holds the lock by reading /proc/locks: trying the lock
// would take it, if only for a moment.
func lockHolder(path string) int {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	data, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(data)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF
		w := strings.Fields(line)
		if len(w) < 6 || w[1] != "FLOCK" || w[5] != file {
			continue
		}
		pid, err := strconv.Atoi(w[4])
		if err != nil || pid <= 0 {
			return -1
		}
		if pid != os.Getpid() {
			return pid
		}
	}
	return 0
}

// candidate looks at the candidate. What makes it unusable is kept with it,
// because a candidate that is active already need not be judged.
func (l *look) candidate(ctx context.Context) error {
	c := l.want.Candidate
	if held := l.heldCandidate(); held != nil {
		return l.candidateInSlot(ctx, held)
	}
	switch {
	case c == nil:
		return nil
	case c.file == nil:
		l.describedCandidate(c)
		return nil
	}
	seen, err := l.seeCandidate(c.Name, c.file)
	if err != nil {
		return lookError("the candidate "+c.Name, err)
	}
	if seen.private, seen.refusal = l.candidateSafe(c); seen.refusal != nil {
		return nil //nolint:nilerr // the plan tells a refusal
	}
	head, err := readHead(c.file, seen.Size)
	if err != nil {
		return lookError("the candidate "+c.Name, err)
	}
	if l.judgeCandidate(seen, head) {
		l.candidateVersion(ctx, seen, c.file)
	}
	return nil
}

func (l *look) seeCandidate(name string, f *os.File) (*CandidateSeen, error) {
	facts, err := l.factsOf(f)
	if err != nil {
		return nil, err
	}
	l.o.Candidate = &CandidateSeen{
		CandidateFacts: CandidateFacts{SHA256: facts.SHA256, Size: facts.Size},
		Dev:            facts.Dev, Ino: facts.Ino, name: name,
	}
	return l.o.Candidate, nil
}

// heldCandidate is the file on this host that is to become active where no
// content came along: last-good, or what a checksum or facts name in a slot.
func (l *look) heldCandidate() *File {
	if f := l.o.Entries[RoleLastGood].File; l.want.State == RolledBack && f.usable() {
		return f
	}
	wanted := l.want.Checksum
	if c := l.want.Candidate; c != nil {
		if c.file != nil || wanted != "" && wanted != c.sha256 {
			return nil
		}
		wanted = c.sha256
	}
	for _, r := range []Role{RoleBlue, RoleGreen} {
		if f := l.o.Entries[r].File; wanted != "" && f.usable() && f.SHA256 == wanted {
			return f
		}
	}
	return nil
}

func (l *look) candidateInSlot(ctx context.Context, held *File) error {
	f, err := os.Open(held.Path)
	if err != nil {
		return lookError(held.Path, err)
	}
	defer f.Close()
	seen, err := l.seeCandidate(held.Path, f)
	if err != nil {
		return lookError(held.Path, err)
	}
	seen.Dev, seen.Ino = 0, 0 // no name of its own that could be the active file's
	head, err := readHead(f, seen.Size)
	if err != nil {
		return lookError(held.Path, err)
	}
	if l.judgeCandidate(seen, head) {
		l.candidateVersion(ctx, seen, f)
	}
	return nil
}

func (l *look) describedCandidate(c *Candidate) {
	seen := &CandidateSeen{name: c.Name}
	seen.SHA256, seen.Size, seen.Version = c.sha256, c.size, versionOf(l.o.History, c.sha256)
	l.o.Candidate = seen
	l.judgeCandidate(seen, c.head)
}

// judgeCandidate tells whether all that can be known without running it speaks
// for the candidate.
func (l *look) judgeCandidate(seen *CandidateSeen, head []byte) bool {
	if w := l.want.Checksum; w != "" && w != seen.SHA256 {
		seen.refusal = &Error{Kind: KindChecksumMismatch, Detail: fmt.Sprintf("the candidate %s has SHA-256 %s, not %s", seen.name, seen.SHA256, w), Hint: "check that src and checksum belong together, and that the download was complete"}
		return false
	}
	seen.format, seen.refusal = readFormat(head, seen.Size)
	seen.Arch = seen.format.arch
	if seen.refusal == nil {
		seen.refusal = seen.format.runnableOn(l.o.Host.Machine)
	}
	if seen.refusal == nil {
		return true
	}
	seen.refusal.Detail = fmt.Sprintf("the candidate %s %s", seen.name, seen.refusal.Detail)
	return false
}

// candidateVersion runs the version command, unless this executable has told
// its version on this host before.
func (l *look) candidateVersion(ctx context.Context, seen *CandidateSeen, f *os.File) {
	if known := versionOf(l.o.History, seen.SHA256); known != "" && (l.want.Version == "" || l.want.Version == known) {
		seen.Version = known
		return
	}
	pinned := ""
	if seen.private {
		pinned = seen.SHA256
	}
	run := l.version(ctx, f, l.want, seen.SHA256, pinned)
	seen.Version, seen.refusal, seen.warning = run.version, run.err, run.warning
}

func (l *look) version(ctx context.Context, f *os.File, want Want, sha256, pinned string) versionRun {
	key := versionKey{sha256, want.Version}
	run, known := l.memory.versions[key]
	if !known {
		run = runVersion(ctx, l.host, f, want, pinned)
		l.memory.versions[key] = run
	}
	return run
}

// candidateSafe judges the candidate's own path. One that others can change is
// taken only where its digest is known from elsewhere.
func (l *look) candidateSafe(c *Candidate) (private bool, refusal *Error) {
	before := len(l.o.refusals)
	err := l.judgeFolders(filepath.Dir(c.path))
	found := l.o.refusals[before:]
	l.o.refusals = l.o.refusals[:before]
	if err != nil {
		return false, lookError(c.path, err)
	}
	if len(found) > 0 {
		refusal = found[0]
	} else if info, err := c.file.Stat(); err == nil {
		if fault, _ := l.judge(info); fault != "" {
			refusal = unsafePath(c.path, fault)
		}
	}
	if refusal == nil {
		return false, nil
	}
	if l.want.Checksum != "" {
		return true, nil
	}
	refusal.Hint = "whoever can change it decides what root runs: place it where only root can write, or give its checksum"
	return false, refusal
}

// activeVersion finds out the version of the active executable.
func (l *look) activeVersion(ctx context.Context) {
	active := l.o.active()
	if active == nil {
		return
	}
	l.o.Version = versionOf(l.o.History, active.SHA256)
	if c := l.o.Candidate; l.o.Version == "" && c != nil && c.SHA256 == active.SHA256 {
		l.o.Version = c.Version
	}
	if l.o.Version != "" || active.Mode&0o111 == 0 || len(l.o.refusals) > 0 {
		return
	}
	f, err := os.Open(active.Path)
	if err != nil {
		return
	}
	defer f.Close()
	anyVersion := l.want
	anyVersion.Version = ""
	l.o.Version = l.version(ctx, f, anyVersion, active.SHA256, "").version // a fact that may stay unknown
}
