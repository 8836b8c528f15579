// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/lastgood/lastgood/activation"
)

// checkArguments holds what was given against the table, in ansible-core's
// order, and fails with the first error. Unlike ansible-core, null always
// counts as not given.
func checkArguments(m module, meta meta, given map[string]gjson.Result) (values, error) {
	v, err := checkLevel(m.arguments, given, "")
	if err != nil {
		return nil, err
	}
	if err := checkCandidate(m, v); err != nil {
		return nil, err
	}
	unknown, supported := []string{}, ""
	for _, a := range m.arguments {
		dict, ok := v[a.Name].(map[string]gjson.Result)
		if !ok {
			continue
		}
		if v[a.Name], err = checkLevel(a.Options, dict, a.Name); err != nil {
			return nil, err
		}
		for _, name := range unknownNames(a.Options, dict) {
			unknown, supported = append(unknown, a.Name+"."+name), names(a.Options)
		}
	}
	if top := unknownNames(m.arguments, given); len(top) > 0 {
		unknown, supported = append(unknown, top...), names(m.arguments)
	}
	if len(unknown) > 0 && !meta.ignoreUnknown {
		slices.Sort(unknown)
		return nil, badArgument("Unsupported parameters for (%s) module: %s. Supported parameters include: %s.", meta.fqcn, strings.Join(unknown, ", "), supported)
	}
	return v, nil
}

// checkLevel checks the arguments of one level: the module's own, or those
// inside the dict of the given name. A dict's content stays as it came.
func checkLevel(table []argument, given map[string]gjson.Result, inside string) (values, error) {
	v := values{}
	for _, a := range table {
		if a.Required && !isGiven(given, a.Name) {
			return nil, badArgument("missing required arguments: %s", a.Name)
		}
	}
	for _, a := range table {
		v[a.Name] = a.Default
		if !isGiven(given, a.Name) {
			continue
		}
		coerced, err := coerce(a, given[a.Name])
		if err != nil {
			return nil, typeError(a, given[a.Name], inside, err)
		}
		v[a.Name] = coerced
	}
	for _, a := range table {
		if a.Choices != nil && !slices.Contains(a.Choices, v.str(a.Name)) {
			return nil, badArgument("value of %s must be one of: %s, got: %s", a.Name, strings.Join(a.Choices, ", "), v.str(a.Name))
		}
	}
	return v, nil
}

func isGiven(given map[string]gjson.Result, name string) bool {
	return given[name].Type != gjson.Null
}

func typeError(a argument, given gjson.Result, inside string, err error) error {
	if whole := (elementError{}); errors.As(err, &whole) {
		return badArgument("%v", err)
	}
	if inside != "" {
		inside = fmt.Sprintf(" found in '%s'.", inside)
	}
	return badArgument("argument '%s' is of type %s%s and we were unable to convert to %s: %v", a.Name, pythonType(given), inside, a.Type, err)
}

// checkCandidate is required_if: present needs something that names a candidate.
func checkCandidate(m module, v values) error {
	if m.name != daemonBinaryName || v.str("state") != string(activation.Present) || v["src"] != nil || v["checksum"] != nil {
		return nil
	}
	return badArgument("state is present but any of the following are missing: src, checksum")
}

func unknownNames(table []argument, given map[string]gjson.Result) []string {
	var unknown []string
	for name := range given {
		if !slices.ContainsFunc(table, func(a argument) bool { return a.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func names(table []argument) string {
	var all []string
	for _, a := range table {
		all = append(all, a.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// stepArguments is the step of errors about the arguments, which come before
// any step of a plan.
const stepArguments = "arguments"

// badArgument is an error about the arguments, found before anything was
// looked at.
func badArgument(format string, args ...any) *activation.Error {
	return &activation.Error{Kind: activation.KindInvalidArgs, Step: stepArguments, Detail: fmt.Sprintf(format, args...)}
}
