// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"context"
	"io/fs"
	"os"
	"time"
)

// Host is every side effect on files and processes that this package has, and
// no more, so that a test can fail, kill or record each of them. NewHost
// returns the real one. Names are relative to an open folder; none of the
// calls follows a symbolic link at that name.
type Host interface {
	// OpenFolder opens the folder at path, in which no component may be a link.
	OpenFolder(path string) (*os.File, error)
	// OpenFile opens a regular file for reading.
	OpenFile(folder *os.File, name string) (*os.File, error)
	// Create makes a new file with mode 0600, open for writing.
	Create(folder *os.File, name string) (*os.File, error)
	// Reopen returns a read-only handle on the file behind f, whatever its
	// name is now, and closes f: a file that is open for writing can't be run.
	Reopen(f *os.File) (*os.File, error)
	// Write appends data to f.
	Write(f *os.File, data []byte) error
	// Copy copies the whole of src into dst and returns what it read: its
	// SHA-256 in hex and its length.
	Copy(dst, src *os.File) (sha256 string, size int64, err error)
	Chown(f *os.File, uid, gid int) error
	Chmod(f *os.File, mode fs.FileMode) error
	SetXattr(f *os.File, name string, value []byte) error
	// Sync makes a file's content, or a folder's entries, durable.
	Sync(f *os.File) error
	// Link makes name a hard link of the open file.
	Link(file, folder *os.File, name string) error
	Symlink(target string, folder *os.File, name string) error
	// Rename replaces to by from, both in folder, at one instant.
	Rename(folder *os.File, from, to string) error
	Unlink(folder *os.File, name string) error
	// Mkdir makes a folder with mode 0700.
	Mkdir(folder *os.File, name string) error
	// Lock takes the lock at path, waiting for at most wait, and returns how
	// to let go of it. The error is ErrLocked when another holds it.
	Lock(ctx context.Context, path string, wait time.Duration) (unlock func() error, err error)
	// Run runs a command to its end.
	Run(ctx context.Context, c Command) (Output, error)
	// Now is the wall clock, for records; the monotonic part is for durations.
	Now() time.Time
}

// Command is a program to be run with a clean environment, no input, in a
// process group of its own that is killed when the command ends or ctx does.
type Command struct {
	File *os.File // what is run, by its inode; nil: Argv[0] is looked up
	Argv []string
	// SHA256, when set, is the digest that File must have: a copy in memory is
	// hashed while it is made and run in place of the file, so that nobody can
	// write between the check and the use.
	SHA256 string
}

// maxOutput is how many bytes of a command's output are kept; a command that
// prints more is killed.
const maxOutput = 64 << 10

// Output is what a command printed, both streams in the order of arrival, and
// how it ended.
type Output struct {
	Text     string
	ExitCode int  // -1 when a signal ended it
	Flooded  bool // killed for printing more than maxOutput bytes
	Signal   string
}

// tempMarker stands in the name of every temporary file; what a killed run
// left behind is known by it and swept.
const tempMarker = ".lastgood-"
