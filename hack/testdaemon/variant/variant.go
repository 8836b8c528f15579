// SPDX-License-Identifier: Apache-2.0

// Package variant makes many different test daemons out of one compiled file.
//
// A variant is a copy of the compiled test daemon with padding and one line
// appended, so each has its own digest and none needs a compiler:
//
//	\n#testdaemon version=2.0.0 behaviour=crash:1s,ignore-term\n
//
// The daemon reads the line from the end of its own executable.
package variant

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

const (
	mark       = "\n#testdaemon "
	maxTrailer = 4096
)

// Variant is what distinguishes one test daemon from another.
type Variant struct {
	Version   string // printed by --version and answered to each connection
	Behaviour string // behaviours joined by commas, as listed by Behaviours
	Pad       int64  // bytes of padding that do not compress, for a file of some size
}

// Base is what a daemon without a trailer is.
func Base() Variant { return Variant{Version: "0.0.0", Behaviour: "ok"} }

// behaviours tells for each behaviour whether it takes an argument.
var behaviours = map[string]bool{
	"ok": false, "crash": true, "exit0": true, "hang": false, "deaf": false,
	"flap": true, "fork": false, "reexec": true, "ignore-term": false,
	"delay-listen": true, "reject-conn-first": true, "status": true,
	"version-fail": false, "version-hang": false, "version-fork": false,
	"version-daemon": false, "version-lie": true, "version-flood": false,
	"version-stderr": false, "version-signal": false,
}

// Behaviours splits a list such as "crash:1s,ignore-term" and refuses what no
// test daemon can do, so that a misspelt test fails instead of testing nothing.
func Behaviours(list string) (map[string]string, error) {
	found := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		name, argument, hasArgument := strings.Cut(item, ":")
		wantsArgument, known := behaviours[name]
		if !known {
			return nil, fmt.Errorf("no behaviour %q", name)
		}
		if wantsArgument != hasArgument {
			return nil, fmt.Errorf("behaviour %q: argument given %v, wanted %v", name, hasArgument, wantsArgument)
		}
		found[name] = argument
	}
	return found, nil
}

// Parse reads fields of the form key=value.
func Parse(fields []string) (Variant, error) {
	v := Base()
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return Variant{}, fmt.Errorf("%q is not key=value", field)
		}
		if err := v.set(key, value); err != nil {
			return Variant{}, err
		}
	}
	_, err := Behaviours(v.Behaviour)
	return v, err
}

func (v *Variant) set(key, value string) (err error) {
	switch key {
	case "version":
		v.Version = value
	case "behaviour":
		v.Behaviour = value
	case "pad":
		v.Pad, err = parseSize(value)
	default:
		err = fmt.Errorf("no key %q: there are version, behaviour and pad", key)
	}
	return err
}

func parseSize(text string) (int64, error) {
	unit := int64(1)
	switch {
	case strings.HasSuffix(text, "K"):
		unit = 1 << 10
	case strings.HasSuffix(text, "M"):
		unit = 1 << 20
	}
	n, err := strconv.ParseInt(strings.TrimRight(text, "KM"), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no size such as 512, 64K or 10M", text)
	}
	return n * unit, nil
}

// Read finds the trailer of the test daemon at path; without one it is Base.
func Read(path string) (Variant, error) {
	file, err := os.Open(path)
	if err != nil {
		return Variant{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Variant{}, err
	}
	end := make([]byte, min(maxTrailer, info.Size()))
	if _, err := file.ReadAt(end, info.Size()-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return Variant{}, err
	}
	at := bytes.LastIndex(end, []byte(mark))
	if at < 0 || end[len(end)-1] != '\n' {
		return Base(), nil
	}
	return Parse(strings.Fields(string(end[at+len(mark):])))
}

// Write makes the variant v at dst from the compiled test daemon at base. A dst
// that exists is replaced by rename, so one that is running can be replaced too.
func Write(dst, base string, v Variant) error {
	trailer, err := trailer(v)
	if err != nil {
		return err
	}
	in, err := os.Open(base)
	if err != nil {
		return err
	}
	defer in.Close()
	next := dst + ".new"
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.MultiReader(in, io.LimitReader(&noise{1}, v.Pad), strings.NewReader(trailer)))
	if err := errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return os.Rename(next, dst)
}

func trailer(v Variant) (string, error) {
	line := fmt.Sprintf("version=%s behaviour=%s", v.Version, v.Behaviour)
	read, err := Parse(strings.Fields(line))
	if err != nil {
		return "", err
	}
	if read.Version != v.Version || read.Behaviour != v.Behaviour {
		return "", fmt.Errorf("version %q and behaviour %q must not be empty or hold spaces", v.Version, v.Behaviour)
	}
	if len(mark)+len(line)+1 > maxTrailer {
		return "", fmt.Errorf("trailer of %d bytes is longer than %d", len(mark)+len(line)+1, maxTrailer)
	}
	return mark + line + "\n", nil
}

// noise is an endless, always equal stream of bytes that do not compress.
type noise struct{ state uint64 }

func (n *noise) Read(p []byte) (int, error) {
	for i := range p {
		n.state ^= n.state << 13
		n.state ^= n.state >> 7
		n.state ^= n.state << 17
		p[i] = byte(n.state & 0xff)
	}
	return len(p), nil
}
