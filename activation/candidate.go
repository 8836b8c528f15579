// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Candidate is the new executable, opened once. From then on its name means
// nothing: what is hashed, run and installed is this inode (I3).
type Candidate struct {
	Name string // for messages
	path string
	file *os.File // nil: only its facts are known

	sha256 string
	size   int64
	head   []byte
}

// DescribeCandidate is a candidate whose content is elsewhere: its digest in
// hex, its size in bytes and its first bytes, 4096 of them if it has so many.
// All but its version command can be checked, and one that a slot holds
// already can be activated.
func DescribeCandidate(name, sha256 string, size int64, head []byte) *Candidate {
	return &Candidate{Name: name, sha256: sha256, size: size, head: head}
}

// OpenCandidate pins the regular file at path. A link is followed, once. The
// caller closes the candidate.
func OpenCandidate(path string) (*Candidate, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &Error{Kind: KindIO, Step: "observe", Detail: "can't tell where " + path + " is", Err: err}
	}
	f, err := openToRead(abs, 0)
	if err != nil {
		return nil, openError(abs, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &Error{Kind: KindNotExecutable, Step: "observe", Detail: fmt.Sprintf("the candidate %s is %s, not a file", abs, fileKind(info.Mode())), Hint: "name the executable itself in src"}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Candidate{Name: path, path: abs, file: f}, nil
}

func openError(path string, err error) error {
	e := &Error{Kind: KindIO, Step: "observe", Detail: "can't open the candidate " + path, Err: cause(err)}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Hint = KindCandidateMissing, "check src; with remote_src it must already be on the host"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Hint = KindNotPermitted, "run as root (become: true), or make the file readable"
	}
	return e
}

// Close lets go of the candidate.
func (c *Candidate) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

func fileKind(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "a file"
	case fs.ModeDir:
		return "a folder"
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}
