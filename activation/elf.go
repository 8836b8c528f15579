// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The machine numbers of the ELF header (elf(5)) that a host with the given
// `uname -m` can run. A machine that is not listed is not judged.
var runsOn = map[string][]uint16{
	"x86_64":      {62, 3},
	"i386":        {3},
	"i486":        {3},
	"i586":        {3},
	"i686":        {3},
	"aarch64":     {183, 40},
	"armv6l":      {40},
	"armv7l":      {40},
	"armv8l":      {40},
	"ppc64":       {21, 20},
	"ppc64le":     {21},
	"s390x":       {22},
	"riscv64":     {243},
	"loongarch64": {258},
	"mips64":      {8},
}

var machineNames = map[uint16]string{
	3: "i386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm",
	62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64",
}

// format is what a file's first bytes say it is.
type format struct {
	arch        string // as `uname -m` says it; "script"
	machine     uint16 // of an ELF file
	bigEndian   bool
	interpreter string // the program that the kernel starts for it; empty: none
}

// headerSize covers the ELF header and the program headers of any sane file.
const headerSize = 64 << 10

// readHead reads as much of a file as readFormat may need.
func readHead(f io.ReaderAt, size int64) ([]byte, error) {
	head := make([]byte, min(size, headerSize))
	n, err := f.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:n], err
}

// What follows says only what is wrong with a file, not which file it is.

// readFormat reads from its first bytes what a file of this size is. The error
// says in a user's words why it can't be run; what lies beyond a head that is
// shorter than headerSize and the file is not judged.
func readFormat(head []byte, size int64) (format, *Error) {
	switch {
	case size == 0:
		return format{}, notExecutable("it is empty")
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return readELF(head, size)
	case bytes.HasPrefix(head, []byte("#!")):
		return readScript(head)
	}
	return format{}, notExecutable(foreignFormat(head))
}

func notExecutable(what string) *Error {
	return &Error{
		Kind:   KindNotExecutable,
		Detail: "is no Linux executable: " + what,
		Hint:   "check what was built or downloaded",
	}
}

// foreignFormats are the files that people hand over by mistake.
var foreignFormats = []struct{ magic, what string }{
	{"MZ", "it is a Windows executable"},
	{"\xfe\xed\xfa\xce", "it is a macOS executable (Mach-O)"},
	{"\xfe\xed\xfa\xcf", "it is a macOS executable (Mach-O)"},
	{"\xce\xfa\xed\xfe", "it is a macOS executable (Mach-O)"},
	{"\xcf\xfa\xed\xfe", "it is a macOS executable (Mach-O)"},
	{"\xca\xfe\xba\xbe", "it is a macOS universal executable or a Java class"},
	{"\x1f\x8b", "it is a gzip archive; unpack it first"},
	{"PK\x03\x04", "it is a zip archive; unpack it first"},
	{"\xfd7zXZ", "it is an xz archive; unpack it first"},
	{"\x28\xb5\x2f\xfd", "it is a zstd archive; unpack it first"},
	{"BZh", "it is a bzip2 archive; unpack it first"},
	{"!<arch>", "it is a Debian package or an ar archive; unpack it first"},
	{"\xed\xab\xee\xdb", "it is an RPM package; unpack it first"},
	{"version https://git-lfs", "it is a Git LFS pointer, not the file itself"},
	{"<", "it is a web page or XML, perhaps an error page that was downloaded"},
	{"{", "it is JSON, perhaps an error message that was downloaded"},
	{"$ANSIBLE_VAULT", "it is encrypted with ansible-vault"},
}

func foreignFormat(head []byte) string {
	for _, f := range foreignFormats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.what
		}
	}
	return fmt.Sprintf("it begins with %q", head[:min(len(head), 8)])
}

// readELF reads the fields of elf(5) that decide whether the kernel runs the
// file. debug/elf does the same for a quarter of a megabyte more.
func readELF(head []byte, size int64) (format, *Error) {
	const class64, littleEndian, bigEndian = 2, 1, 2
	if len(head) < 52 || head[4] == class64 && len(head) < 64 {
		return format{}, notExecutable("its ELF header is truncated")
	}
	var order binary.ByteOrder
	switch head[5] {
	case littleEndian:
		order = binary.LittleEndian
	case bigEndian:
		order = binary.BigEndian
	default:
		return format{}, notExecutable("its ELF header is damaged (byte order)")
	}
	h := elfHeader{head: head, order: order, is64: head[4] == class64, whole: int64(len(head)) >= min(size, headerSize)}
	if head[4] != 1 && head[4] != class64 {
		return format{}, notExecutable("its ELF header is damaged (class)")
	}
	if abi := head[7]; abi != 0 && abi != 3 {
		return format{}, notExecutable(fmt.Sprintf("it is built for another operating system (ELF OSABI %d)", abi))
	}
	if t := order.Uint16(head[16:]); t != 2 && t != 3 {
		return format{}, notExecutable("it is an object file or a core dump, not a program")
	}
	interpreter, err := h.segments(size)
	if err != nil {
		return format{}, err
	}
	machine := order.Uint16(head[18:])
	return format{arch: machineName(machine), machine: machine, bigEndian: head[5] == bigEndian, interpreter: interpreter}, nil
}

func machineName(machine uint16) string {
	if name := machineNames[machine]; name != "" {
		return name
	}
	return fmt.Sprintf("ELF machine %d", machine)
}

type elfHeader struct {
	head  []byte
	order binary.ByteOrder
	is64  bool
	whole bool // head holds all that a sane header needs
}

// segments checks that every loaded segment lies within the file and returns
// the path in PT_INTERP.
func (h elfHeader) segments(size int64) (string, *Error) {
	const ptLoad, ptInterp = 1, 3
	offset, entry, count := h.table()
	interpreter, loads := "", 0
	for i := range count {
		start := offset + uint64(i)*entry
		if offset > headerSize || start+h.minEntry() > uint64(len(h.head)) {
			if !h.whole {
				return "", nil
			}
			return "", notExecutable("its program headers are truncated")
		}
		kind, at, length := h.segment(h.head[start:])
		if kind != ptLoad && kind != ptInterp {
			continue
		}
		if end := at + length; end < at || end > uint64(max(size, 0)) {
			return "", notExecutable(fmt.Sprintf("it is truncated: the file has %d bytes and its header speaks of %d", size, end))
		}
		if kind == ptLoad {
			loads++
			continue
		}
		var err *Error
		if interpreter, err = h.interpreter(at, length); err != nil {
			return "", err
		}
	}
	if loads == 0 {
		return "", notExecutable("it holds nothing to run (no loadable segment)")
	}
	return interpreter, nil
}

// interpreter is the path in PT_INTERP, or "" where the head at hand ends
// before it.
func (h elfHeader) interpreter(at, length uint64) (string, *Error) {
	cut := at+length > uint64(len(h.head))
	switch {
	case length == 0, length > 4096, cut && h.whole:
		return "", notExecutable("its ELF header is damaged (interpreter)")
	case cut:
		return "", nil
	}
	return strings.TrimRight(string(h.head[at:at+length]), "\x00"), nil
}

func (h elfHeader) table() (offset, entry uint64, count int) {
	if h.is64 {
		return h.order.Uint64(h.head[32:]), uint64(h.order.Uint16(h.head[54:])), int(h.order.Uint16(h.head[56:]))
	}
	return uint64(h.order.Uint32(h.head[28:])), uint64(h.order.Uint16(h.head[42:])), int(h.order.Uint16(h.head[44:]))
}

func (h elfHeader) minEntry() uint64 {
	if h.is64 {
		return 56
	}
	return 32
}

func (h elfHeader) segment(p []byte) (kind uint32, offset, length uint64) {
	kind = h.order.Uint32(p)
	if h.is64 {
		return kind, h.order.Uint64(p[8:]), h.order.Uint64(p[32:])
	}
	return kind, uint64(h.order.Uint32(p[4:])), uint64(h.order.Uint32(p[16:]))
}

func readScript(head []byte) (format, *Error) {
	line, _, ended := bytes.Cut(head[2:], []byte("\n"))
	if !ended && len(head) == headerSize {
		return format{}, notExecutable("its first line has no end")
	}
	if bytes.HasSuffix(line, []byte("\r")) {
		return format{}, notExecutable("it is a script with Windows line ends (CR LF)")
	}
	words := strings.Fields(string(line))
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return format{}, notExecutable("it is a script whose first line names no interpreter")
	}
	return format{arch: "script", interpreter: words[0]}, nil
}

// runnableOn says why a host with this `uname -m` can't run the file, or nil.
func (f format) runnableOn(uname string) *Error {
	machines, known := runsOn[uname]
	wrongOrder := f.machine == 21 && (uname == "ppc64" && !f.bigEndian || uname == "ppc64le" && f.bigEndian)
	if f.machine != 0 && known && (!slices.Contains(machines, f.machine) || wrongOrder) {
		return &Error{
			Kind:   KindWrongArchitecture,
			Detail: fmt.Sprintf("is built for %s and this host is %s", f.arch, uname),
			Hint:   "give this host the candidate that is built for " + uname,
		}
	}
	return f.interpreterThere()
}

func (f format) interpreterThere() *Error {
	if f.interpreter == "" {
		return nil
	}
	_, err := os.Stat(f.interpreter)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	what, hint := "the program loader", "it is linked against a C library that this host lacks (musl or glibc, or other libraries' version); use a static build or one for this distribution"
	if f.arch == "script" {
		what, hint = "the interpreter", "install it, or correct the script's first line"
	}
	return &Error{
		Kind:   KindMissingInterpreter,
		Detail: fmt.Sprintf("needs %s %s, which this host does not have", what, f.interpreter),
		Hint:   hint,
	}
}
