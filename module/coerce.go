// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Types as ansible-core coerces them (module_utils/common/validation.py), and
// its words where that fails: playbooks match on them.

// values holds checked arguments: string, bool, float64, []string, values, or
// nil for one that was not given and has no default.
type values map[string]any

func (v values) str(name string) string {
	s, _ := v[name].(string)
	return s
}

func (v values) bool(name string) bool {
	b, _ := v[name].(bool)
	return b
}

func (v values) float(name string) float64 {
	f, _ := v[name].(float64)
	return f
}

func (v values) list(name string) []string {
	l, _ := v[name].([]string)
	return l
}

func (v values) dict(name string) values {
	d, _ := v[name].(values)
	return d
}

// coerce makes v what a says.
func coerce(a argument, v gjson.Result) (any, error) {
	switch a.Type {
	case typeStr:
		return toStr(v)
	case typePath:
		return toPath(v)
	case typeBool:
		return toBool(v)
	case typeFloat:
		return toFloat(v)
	case typeList:
		return toList(a.Name, v)
	case typeDict:
		return toDict(v)
	default:
		return toRaw(v)
	}
}

// toRaw takes what may be a string or a number, and leaves it one.
func toRaw(v gjson.Result) (any, error) {
	switch v.Type {
	case gjson.String:
		return v.Str, nil
	case gjson.Number:
		return toFloat(v)
	default:
		return nil, cannot(v, "str or an int")
	}
}

// pythonType is what Python calls v's type, for messages.
func pythonType(v gjson.Result) string {
	switch {
	case v.Type == gjson.Null:
		return "NoneType"
	case v.IsBool():
		return "bool"
	case v.Type == gjson.Number && strings.ContainsAny(v.Raw, ".eE"):
		return "float"
	case v.Type == gjson.Number:
		return "int"
	case v.IsArray():
		return "list"
	case v.IsObject():
		return "dict"
	default:
		return "str"
	}
}

func cannot(v gjson.Result, what string) error {
	return fmt.Errorf("<class '%s'> cannot be converted to a %s", pythonType(v), what)
}

// toStr refuses lists and dicts, which Ansible would turn into Python source.
func toStr(v gjson.Result) (string, error) {
	switch v.Type {
	case gjson.String:
		return v.Str, nil
	case gjson.Number:
		return v.Raw, nil // what Python's str() gives too, since Python wrote it
	case gjson.True:
		return "True", nil
	case gjson.False:
		return "False", nil
	case gjson.Null:
		return "", nil
	default:
		return "", cannot(v, "str")
	}
}

var (
	booleansTrue  = []string{"y", "yes", "on", "1", "true", "t"}
	booleansFalse = []string{"n", "no", "off", "0", "false", "f"}
)

func toBool(v gjson.Result) (bool, error) {
	switch {
	case v.IsBool():
		return v.Bool(), nil
	case v.Type == gjson.Number && (v.Num == 0 || v.Num == 1):
		return v.Num == 1, nil
	case v.Type == gjson.Null || v.IsObject() || v.IsArray():
		return false, cannot(v, "bool")
	}
	word := strings.ToLower(strings.TrimSpace(v.String()))
	if v.Type == gjson.String && slices.Contains(booleansTrue, word) {
		return true, nil
	}
	if v.Type == gjson.String && slices.Contains(booleansFalse, word) {
		return false, nil
	}
	shown, _ := toStr(v)
	return false, fmt.Errorf("The value '%s' is not a valid boolean. Valid booleans include: '%s', '%s', 0, 1", //nolint:staticcheck // ansible-core's words
		shown, strings.Join(booleansTrue, "', '"), strings.Join(booleansFalse, "', '"))
}

func toFloat(v gjson.Result) (float64, error) {
	switch v.Type {
	case gjson.True:
		return 1, nil
	case gjson.False:
		return 0, nil
	case gjson.Number:
		return parseFloat(v, v.Raw)
	case gjson.String:
		return parseFloat(v, v.Str)
	default:
		return 0, cannot(v, "float")
	}
}

// parseFloat reads what Python's float() reads, except infinities and NaN,
// which are no length of time; strconv also knows hexadecimal.
func parseFloat(v gjson.Result, text string) (float64, error) {
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, "xX") {
		return 0, cannot(v, "float")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, cannot(v, "float")
	}
	return f, nil
}

// toList splits a string on commas, as Ansible does. Beyond Ansible, a string
// that is a JSON list is one: ad-hoc arguments have no other way to say [].
func toList(name string, v gjson.Result) ([]string, error) {
	switch {
	case v.IsArray():
		return toStrings(name, v.Array())
	case v.Type == gjson.String && isListText(v.Str):
		return toStrings(name, gjson.Parse(v.Str).Array())
	case v.Type == gjson.String:
		return strings.Split(v.Str, ","), nil
	case v.Type == gjson.Number || v.IsBool():
		return toStrings(name, []gjson.Result{v})
	default:
		return nil, cannot(v, "list")
	}
}

func isListText(s string) bool {
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "[") && json.Valid([]byte(s))
}

func toStrings(name string, items []gjson.Result) ([]string, error) {
	list := make([]string, 0, len(items))
	for _, item := range items {
		s, err := toStr(item)
		if err != nil {
			return nil, elementError{fmt.Errorf("Elements value for option '%s' is of type %s and we were unable to convert to str: %w", name, pythonType(item), err)} //nolint:staticcheck // ansible-core's words
		}
		list = append(list, s)
	}
	return list, nil
}

// elementError is a whole message: the list's own type was right.
type elementError struct{ error }

func toDict(v gjson.Result) (map[string]gjson.Result, error) {
	switch {
	case v.IsObject():
		return v.Map(), nil
	case v.Type != gjson.String:
		return nil, cannot(v, "dict")
	case strings.HasPrefix(v.Str, "{"):
		dict, err := parseObject([]byte(v.Str))
		if err != nil {
			return nil, errors.New("unable to evaluate string as dictionary")
		}
		return dict, nil
	case strings.Contains(v.Str, "="):
		return parsePairs(v.Str)
	default:
		return nil, errors.New("dictionary requested, could not parse JSON or key=value")
	}
}

// parsePairs reads k=v pairs that commas or blanks separate. Unlike Ansible it
// refuses a key that is there twice.
func parsePairs(text string) (map[string]gjson.Result, error) {
	dict := map[string]gjson.Result{}
	for _, field := range splitFields(text) {
		key, value, found := strings.Cut(field, "=")
		if _, twice := dict[key]; !found || twice {
			return nil, errors.New(`unable to evaluate string in the "key=value" format as dictionary`)
		}
		dict[key] = gjson.Result{Type: gjson.String, Str: value}
	}
	return dict, nil
}

// splitFields splits on commas and blanks outside of quotes.
func splitFields(text string) []string {
	var fields []string
	var field strings.Builder
	end := func() {
		if field.Len() > 0 {
			fields = append(fields, field.String())
		}
		field.Reset()
	}
	var quote rune
	escaped := false
	for _, c := range strings.TrimSpace(text) {
		switch {
		case escaped:
			field.WriteRune(c)
			escaped = false
		case c == '\\':
			escaped = true
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && quote == c:
			quote = 0
		case quote == 0 && (c == ',' || c == ' '):
			end()
		default:
			field.WriteRune(c)
		}
	}
	end()
	return fields
}

// pathMost is the kernel's PATH_MAX.
const pathMost = 4096

// toPath expands $NAME and ~ as Python's os.path does: what is unknown stays.
func toPath(v gjson.Result) (string, error) {
	s, err := toStr(v)
	if err != nil {
		return "", err
	}
	if len(s) > pathMost {
		return "", fmt.Errorf("it is %d bytes long, and no path is longer than %d", len(s), pathMost)
	}
	return expandHome(expandVariables(s)), nil
}

func expandVariables(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, length := variableName(after)
		value, known := os.LookupEnv(name)
		if !known || name == "" {
			value = "$" + after[:length]
		}
		b.WriteString(value)
		s = after[length:]
	}
}

// variableName reads NAME or {NAME} at the start of s, and tells how many
// bytes that took.
func variableName(s string) (name string, length int) {
	if inner, _, closed := strings.Cut(strings.TrimPrefix(s, "{"), "}"); closed && strings.HasPrefix(s, "{") {
		return inner, len(inner) + 2
	}
	for length < len(s) && isWord(s[length]) {
		length++
	}
	return s[:length], length
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func expandHome(s string) string {
	if !strings.HasPrefix(s, "~") {
		return s
	}
	name, rest, slash := strings.Cut(s[1:], "/")
	home := homeOf(name)
	if home == "" {
		return s
	}
	home = strings.TrimRight(home, "/")
	if slash {
		return home + "/" + rest
	}
	return cmp.Or(home, "/")
}

func homeOf(name string) string {
	if home, ok := os.LookupEnv("HOME"); ok && name == "" {
		return home
	}
	find := user.Lookup
	if name == "" {
		find = func(string) (*user.User, error) { return user.Current() }
	}
	u, err := find(name)
	if err != nil {
		return ""
	}
	return u.HomeDir
}
