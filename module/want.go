// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lastgood/lastgood/activation"
)

// buildWant makes what the library takes from checked arguments. It does not
// open the candidate.
func buildWant(v values) (activation.Want, error) {
	if err := checkPaths(v); err != nil {
		return activation.Want{}, err
	}
	want := activation.NewWant(filepath.Clean(v.str("path")), activation.Present)
	steps := []func(values, *activation.Want) error{setPlaces, setUnit, setVersion, setTimes, setOwnership}
	for _, set := range steps {
		if err := set(v, &want); err != nil {
			return activation.Want{}, err
		}
	}
	return want, nil
}

// buildFullWant adds what only daemon_binary takes.
func buildFullWant(v values) (activation.Want, error) {
	want, err := buildWant(v)
	if err != nil {
		return want, err
	}
	want.State = activation.State(v.str("state"))
	want.Restart = activation.RestartPolicy(v.str("restart"))
	want.Rollback = v.bool("rollback")
	want.Force = v.bool("force")
	if err := setHealth(v.dict("health"), &want.Health); err != nil {
		return want, err
	}
	if want.State != activation.Present {
		// A play that is run once more with state=rolled_back still names its
		// candidate. It is not looked at.
		want.Version = ""
		return want, nil
	}
	want.Checksum, err = parseChecksum(v.str("checksum"))
	return want, err
}

// checkPaths looks at every path there is: absolute, printable as UTF-8, and
// without .., which after a link is not the folder that it seems.
func checkPaths(v values) error {
	for _, a := range arguments {
		if err := checkPath(a, a.Name, v[a.Name]); err != nil {
			return err
		}
		dict, _ := v[a.Name].(values)
		for _, option := range a.Options {
			if err := checkPath(option, a.Name+"."+option.Name, dict[option.Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPath(a argument, name string, value any) error {
	path, given := value.(string)
	if a.Type != typePath || !given {
		return nil
	}
	switch {
	case !filepath.IsAbs(path):
		return badArgument("%s must be an absolute path, and '%s' is not", name, path)
	case !utf8.ValidString(path) || strings.ContainsRune(path, utf8.RuneError):
		return badArgument("%s holds bytes that are not UTF-8: '%s'", name, path)
	case strings.ContainsFunc(path, isControl):
		return badArgument("%s holds a control character: %q", name, path)
	case slices.Contains(strings.Split(path, "/"), ".."):
		return badArgument("%s must not hold '..': '%s'", name, path)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func setPlaces(v values, want *activation.Want) error {
	if dir := v.str("slot_dir"); dir != "" {
		want.Layout = activation.DefaultLayout(want.Layout.Path, filepath.Clean(dir))
	}
	layout := v.dict("layout")
	override(&want.Layout.Blue, layout, "blue")
	override(&want.Layout.Green, layout, "green")
	override(&want.Layout.Current, layout, "current")
	override(&want.Layout.LastGood, layout, "last_good")
	override(&want.LockPath, v, "lock_path")
	override(&want.SignalPath, v, "signal_path")
	override(&want.StateDir, v, "state_dir")
	return nil
}

func override(path *string, v values, name string) {
	if given := v.str(name); given != "" {
		*path = filepath.Clean(given)
	}
}

// unitTypes are systemd's, except service.
var unitTypes = []string{".automount", ".device", ".mount", ".path", ".scope", ".slice", ".socket", ".swap", ".target", ".timer"}

func setUnit(v values, want *activation.Want) error {
	unit := v.str("unit")
	switch {
	case unit == "":
		return nil
	case slices.Contains(unitTypes, filepath.Ext(unit)):
		return badArgument("unit must be a service, and '%s' is not", unit)
	case strings.Trim(unit, unitCharacters) != "":
		return badArgument("unit '%s' is no name that systemd takes", unit)
	}
	if filepath.Ext(unit) != ".service" {
		unit += ".service"
	}
	if strings.HasSuffix(unit, "@.service") {
		return badArgument("unit '%s' is a template: name one of its instances, as foo@bar.service", unit)
	}
	want.Unit = unit
	return nil
}

const unitCharacters = `abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\@`

func setVersion(v values, want *activation.Want) error {
	want.Version = v.str("version")
	want.VersionArgs = words(v.list("version_args"))
	switch {
	case strings.ContainsAny(want.Version, " \t\r\n"):
		return badArgument("version must be one word of what the version command prints, as 2.0.0, and '%s' is not", want.Version)
	case want.Version != "" && len(want.VersionArgs) == 0:
		return badArgument("version '%s' can't be checked, because version_args is empty and so the candidate is not run", want.Version)
	}
	return nil
}

// words makes of the list of one empty string, which is what an empty ad-hoc
// value comes to, the empty list that it means.
func words(list []string) []string {
	if len(list) == 1 && list[0] == "" {
		return nil
	}
	return list
}

// maxWait keeps a time given in milliseconds by mistake from being obeyed.
const maxWait = 24 * time.Hour

func setTimes(v values, want *activation.Want) error {
	if v["lock_timeout"] != nil {
		if err := setTime(&want.LockTimeout, v, "lock_timeout", "lock_timeout", 0); err != nil {
			return err
		}
	}
	return setTime(&want.VersionTimeout, v, "version_timeout", "version_timeout", time.Millisecond)
}

func setTime(d *time.Duration, v values, name, shown string, least time.Duration) error {
	seconds := v.float(name)
	if seconds < least.Seconds() || seconds > maxWait.Seconds() {
		return badArgument("%s must be from %v to %.0f seconds, and %v is not", shown, least.Seconds(), maxWait.Seconds(), seconds)
	}
	*d = time.Duration(seconds * float64(time.Second))
	return nil
}

func setHealth(v values, health *activation.Health) error {
	if v == nil {
		return nil
	}
	if err := setTime(&health.StableFor, v, "stable_for", "health.stable_for", time.Millisecond); err != nil {
		return err
	}
	if err := setTime(&health.Timeout, v, "timeout", "health.timeout", time.Millisecond); err != nil {
		return err
	}
	health.Command = words(v.list("command"))
	health.TCP = v.str("tcp")
	if health.TCP == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(health.TCP)
	if number, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || number == 0 {
		return badArgument("health.tcp must be host:port with a number as port, and '%s' is not; for example 127.0.0.1:8080 or [::1]:8080", health.TCP)
	}
	return nil
}

const digestLength = 64

// parseChecksum returns a SHA-256 as 64 lower-case hex digits.
func parseChecksum(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	algorithm, digits, named := strings.Cut(strings.TrimSpace(text), ":")
	if !named {
		algorithm, digits = "sha256", algorithm
	}
	digits = strings.ToLower(digits)
	switch _, err := hex.DecodeString(digits); {
	case !strings.EqualFold(algorithm, "sha256"):
		return "", badArgument("checksum must be a SHA-256, and '%s' names %s", text, algorithm)
	case len(digits) != digestLength:
		return "", badArgument("checksum '%s' is %d characters long, and a SHA-256 has %d hex digits", text, len(digits), digestLength)
	case err != nil:
		return "", badArgument("checksum '%s' is not hex", text)
	}
	return digits, nil
}

func setOwnership(v values, want *activation.Want) error {
	var err error
	if want.Owner, err = lookUp(v.str("owner"), "owner", userID); err != nil {
		return err
	}
	if want.Group, err = lookUp(v.str("group"), "group", groupID); err != nil {
		return err
	}
	want.Mode, err = parseMode(v["mode"])
	return err
}

func userID(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func groupID(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

// lookUp returns a numeric id; nil when name is empty.
func lookUp(name, argument string, find func(string) (string, error)) (*int, error) {
	if name == "" {
		return nil, nil
	}
	text := name
	if _, err := strconv.Atoi(name); err != nil {
		if text, err = find(name); err != nil {
			return nil, &activation.Error{Kind: activation.KindInvalidArgs, Step: stepArguments,
				Detail: fmt.Sprintf("%s '%s' is not known on this host", argument, name),
				Hint:   "create it first; one that lives in LDAP or another directory can be given by its number"}
		}
	}
	id, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, badArgument("%s '%s' is no usable id", argument, name)
	}
	number := int(id)
	return &number, nil
}

// parseMode reads a mode as Ansible's file modules do: text is octal, a number
// is the bits themselves, because YAML has read the octal already. nil: none.
func parseMode(value any) (*fs.FileMode, error) {
	var bits uint64
	switch mode := value.(type) {
	case nil:
		return nil, nil
	case string:
		var err error
		if bits, err = parseModeText(strings.TrimSpace(mode)); err != nil {
			return nil, err
		}
	case float64:
		bits = uint64(mode)
		// 755 without quotes and leading 0 is decimal, and comes to 01363.
		if mode != float64(bits) || bits > 0o777 {
			return nil, ambiguousMode(mode)
		}
	}
	if bits > 0o7777 {
		return nil, badArgument("mode '%v' has more than permission bits", value)
	}
	if bits&0o111 == 0 {
		return nil, badArgument("mode %04o would make the executable one that nobody can run; give for example '0755'", bits)
	}
	mode := fileMode(bits)
	return &mode, nil
}

func ambiguousMode(mode float64) error {
	return badArgument("mode %v is a decimal number that is no mode of an executable; give octal digits in quotes, as '0755'", mode)
}

func parseModeText(text string) (uint64, error) {
	if bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32); err == nil {
		return bits, nil
	}
	if strings.ContainsRune(text, '=') {
		return parseSymbolicMode(text)
	}
	return 0, badArgument("mode must be in octal or symbolic form, and '%s' is neither; give octal digits in quotes, as '0755'", text)
}

// parseSymbolicMode reads u=rwx,g=rx,o=rx. What depends on the mode that is
// there (+, -, a class left out) is refused: which file's would it be?
func parseSymbolicMode(text string) (uint64, error) {
	shifts := map[byte]uint{'u': 6, 'g': 3, 'o': 0}
	var bits uint64
	for _, part := range strings.Split(text, ",") {
		classes, permissions, _ := strings.Cut(part, "=")
		if classes == "a" {
			classes = "ugo"
		}
		for _, class := range []byte(classes) {
			shift, once := shifts[class]
			if !once || strings.Trim(permissions, "rwx") != "" {
				return 0, symbolicModeError(text)
			}
			delete(shifts, class)
			bits |= permissionBits(permissions) << shift
		}
	}
	if len(shifts) > 0 {
		return 0, symbolicModeError(text)
	}
	return bits, nil
}

func permissionBits(permissions string) uint64 {
	var bits uint64
	for _, p := range permissions {
		bits |= map[rune]uint64{'r': 4, 'w': 2, 'x': 1}[p]
	}
	return bits
}

func symbolicModeError(text string) error {
	return badArgument("mode '%s' can't be used: a symbolic mode must set r, w and x of u, g and o once each, as u=rwx,g=rx,o=rx; better give octal digits in quotes, as '0755'", text)
}

func fileMode(bits uint64) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
