// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("the lock is held by another process")

// errDigest says that a file changed between its check and its use.
var errDigest = errors.New("its content has changed since it was checked")

// NewHost returns the host that this process runs on.
func NewHost() Host { return linuxHost{} }

type linuxHost struct{}

// OpenFolder walks the path itself rather than with openat2(2), which kernels
// before 5.6 (RHEL 8) and many seccomp filters lack.
func (linuxHost) OpenFolder(path string) (*os.File, error) {
	fd, err := openat(unix.AT_FDCWD, "/", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		next, err := openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		_ = unix.Close(fd) // it was only read
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (linuxHost) OpenFile(folder *os.File, name string) (*os.File, error) {
	fd, err := openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	return asFile(fd, err, "open", folder, name)
}

func (linuxHost) Create(folder *os.File, name string) (*os.File, error) {
	fd, err := openat(int(folder.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
	return asFile(fd, err, "create", folder, name)
}

func asFile(fd int, err error, op string, folder *os.File, name string) (*os.File, error) {
	if err != nil {
		return nil, pathError(op, folder, name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(folder.Name(), name)), nil
}

// openToRead opens without waiting: a FIFO would wait for its writer.
func openToRead(path string, flags int) (*os.File, error) {
	fd, err := openat(unix.AT_FDCWD, path, flags|unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0o600)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (linuxHost) Reopen(f *os.File) (*os.File, error) {
	r, err := reopen(f)
	return r, errors.Join(err, f.Close())
}

// reopen opens the inode behind f for reading. It returns nil on error.
func reopen(f *os.File) (*os.File, error) {
	fd, err := openat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.O_RDONLY)
	if err != nil {
		return nil, &fs.PathError{Op: "reopen", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func (linuxHost) Write(f *os.File, data []byte) error {
	_, err := f.Write(data)
	return err
}

func (linuxHost) Copy(dst, src *os.File) (string, int64, error) {
	h := sha256.New()
	size, err := io.CopyBuffer(onlyWriter{io.MultiWriter(dst, h)}, io.NewSectionReader(src, 0, 1<<62), make([]byte, 256<<10))
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// onlyWriter hides ReadFrom, so that the buffer's size is ours.
type onlyWriter struct{ io.Writer }

func (linuxHost) Chown(f *os.File, uid, gid int) error     { return f.Chown(uid, gid) }
func (linuxHost) Chmod(f *os.File, mode fs.FileMode) error { return f.Chmod(mode) }

func (linuxHost) SetXattr(f *os.File, name string, value []byte) error {
	if err := unix.Fsetxattr(int(f.Fd()), name, value, 0); err != nil {
		return &fs.PathError{Op: "setxattr " + name, Path: f.Name(), Err: err}
	}
	return nil
}

func (linuxHost) Sync(f *os.File) error { return f.Sync() }

func (linuxHost) Link(file, folder *os.File, name string) error {
	self := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	err := unix.Linkat(unix.AT_FDCWD, self, int(folder.Fd()), name, unix.AT_SYMLINK_FOLLOW)
	return pathError("link", folder, name, err)
}

func (linuxHost) Symlink(target string, folder *os.File, name string) error {
	return pathError("symlink", folder, name, unix.Symlinkat(target, int(folder.Fd()), name))
}

func (linuxHost) Rename(folder *os.File, from, to string) error {
	return pathError("rename", folder, to, unix.Renameat(int(folder.Fd()), from, int(folder.Fd()), to))
}

func (linuxHost) Unlink(folder *os.File, name string) error {
	return pathError("unlink", folder, name, unix.Unlinkat(int(folder.Fd()), name, 0))
}

func (linuxHost) Mkdir(folder *os.File, name string) error {
	return pathError("mkdir", folder, name, unix.Mkdirat(int(folder.Fd()), name, 0o700))
}

func pathError(op string, folder *os.File, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: filepath.Join(folder.Name(), name), Err: err}
}

// lockPoll is how often a held lock is tried again.
const lockPoll = 50 * time.Millisecond

func (linuxHost) Lock(ctx context.Context, path string, wait time.Duration) (func() error, error) {
	deadline := time.Now().Add(wait)
	for {
		// NOFOLLOW, because a lock behind a planted link would be nobody else's.
		l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW), flock.SetPermissions(0o600))
		held, err := l.TryLock()
		if err == nil && held && sameFile(l, path) {
			return l.Close, nil
		}
		_ = l.Close() // nothing is held, or a file that has lost its name
		if err != nil {
			return nil, err
		}
		if !held && !time.Now().Before(deadline) {
			return nil, ErrLocked
		}
		if err := pause(ctx, lockPoll); err != nil {
			return nil, err
		}
	}
}

// pause is for what tells nobody when it changes.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// sameFile guards against a lock file that was unlinked between open and
// flock: another process would then lock a file of the same name beside us.
func sameFile(l *flock.Flock, path string) bool {
	held, err := l.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(held, named)
}

func (linuxHost) Now() time.Time { return time.Now() }

// pipeGrace is how long a process that the command left behind may hold its
// output open after the command's own end.
const pipeGrace = 100 * time.Millisecond

func (linuxHost) Run(ctx context.Context, c Command) (Output, error) {
	// A parent-death signal is sent when the creating thread ends, not the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	file := c.File
	if file != nil {
		f, err := runnable(file, c.SHA256)
		if err != nil {
			return Output{}, err
		}
		defer f.Close()
		file = f
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := &boundedBuffer{full: stop}
	cmd, err := start(ctx, c.Argv, file, out)
	if err != nil {
		return Output{}, err
	}
	err = cmd.Wait()
	killGroup(cmd.Process.Pid)
	return outcomeOf(ctx, cmd, out, err)
}

func outcomeOf(ctx context.Context, cmd *exec.Cmd, out *boundedBuffer, err error) (Output, error) {
	result := Output{Text: out.kept.String(), ExitCode: cmd.ProcessState.ExitCode(), Flooded: out.flooded}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		result.Signal = unix.SignalName(ws.Signal())
	}
	var exit *exec.ExitError
	switch {
	case out.flooded, err == nil, errors.Is(err, exec.ErrWaitDelay):
		return result, nil
	case ctx.Err() != nil:
		return result, ctx.Err()
	case errors.As(err, &exit):
		return result, nil
	}
	return result, err
}

// start starts the command, again for a moment when its file is busy: a child
// that another goroutine is just forking holds a copy of our write handle
// until it execs.
func start(ctx context.Context, argv []string, file *os.File, out io.Writer) (*exec.Cmd, error) {
	const tries = 50
	for try := 1; ; try++ {
		cmd := newCommand(ctx, argv, file)
		cmd.Stdout, cmd.Stderr = out, out
		err := cmd.Start()
		if err == nil || try == tries || !errors.Is(err, unix.ETXTBSY) {
			return cmd, err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func newCommand(ctx context.Context, argv []string, file *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0])
	if file != nil {
		cmd = exec.CommandContext(ctx, "/proc/self/fd/3") // the first of ExtraFiles
		cmd.ExtraFiles = []*os.File{file}
	}
	cmd.Args = argv
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { killGroup(cmd.Process.Pid); return nil }
	cmd.WaitDelay = pipeGrace
	return cmd
}

// runnable returns a handle that can be executed: the file itself, or a copy
// in memory where its mode, its file system or its writers forbid that.
func runnable(f *os.File, pinned string) (*os.File, error) {
	var st unix.Stat_t
	var sf unix.Statfs_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Fstatfs(int(f.Fd()), &sf)); err != nil {
		return nil, err
	}
	if pinned == "" && st.Mode&0o111 != 0 && sf.Flags&unix.ST_NOEXEC == 0 {
		return reopen(f)
	}
	fd, err := unix.MemfdCreate("candidate", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("no copy in memory: %w", err)
	}
	m := os.NewFile(uintptr(fd), f.Name())
	sum, _, err := linuxHost{}.Copy(m, f)
	if err == nil && pinned != "" && sum != pinned {
		err = errDigest
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func killGroup(pid int) {
	_ = unix.Kill(-pid, unix.SIGKILL) // gone already: nothing to kill
}

// boundedBuffer keeps the first maxOutput bytes and then calls full once. It
// must not embed its buffer: io.Copy would write by ReadFrom, past the bound.
type boundedBuffer struct {
	kept    bytes.Buffer
	full    func()
	flooded bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := maxOutput - b.kept.Len()
	b.kept.Write(p[:min(len(p), room)])
	if len(p) > room && !b.flooded {
		b.flooded = true
		b.full()
	}
	return len(p), nil
}
