// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/lastgood/lastgood/activation"
	"github.com/lastgood/lastgood/systemd"
)

// answer does what one JSON object of arguments says and returns the reply.
// named is the module that the binary was called as, nil when its name did not
// tell.
func answer(ctx context.Context, raw []byte, named *module) (r reply) {
	defer func() {
		if panicked := recover(); panicked != nil {
			r = bug(panicked)
		}
		r.shorten()
	}()
	all, err := parseObject(raw)
	if err != nil {
		return refusal(&activation.Error{Kind: activation.KindInvalidArgs, Step: stepArguments, Detail: err.Error()})
	}
	m := chooseModule(named, all)
	meta, given, err := splitMeta(m, all)
	if err != nil {
		return refusal(err)
	}
	v, err := checkArguments(m, meta, given)
	if err != nil {
		return refusal(err)
	}
	if !meta.noLog {
		logInvocation(meta, v)
	}
	r = perform(ctx, m, meta, v)
	if all[metaPrefix+"verbosity"].Int() < explains {
		r.Decisions = nil
	}
	if !meta.noLog && !meta.noInvocation {
		r.Invocation = &invocation{ModuleArgs: censored(v)}
	}
	return r
}

// explains is the verbosity, -vvv, at which the reasons of a plan are told.
const explains = 3

// chooseModule lets the name that Ansible gives in the arguments decide where
// the binary's own name does not.
func chooseModule(named *module, all map[string]gjson.Result) module {
	if named != nil {
		return *named
	}
	if m := moduleNamed(all[metaPrefix+"module_name"].String()); m != nil {
		return *m
	}
	return daemonBinary
}

// perform carries checked arguments out.
func perform(ctx context.Context, m module, meta meta, v values) reply {
	if m.name == daemonBinaryInfoName {
		return performInfo(ctx, v)
	}
	if err := refuseUnsentSource(meta, v); err != nil {
		return refusal(err)
	}
	want, err := buildFullWant(onThisHost(meta.channel, v))
	if err != nil {
		return refusal(err)
	}
	if err := openCandidate(v, meta.channel, &want); err != nil {
		return refusal(err)
	}
	if want.Candidate != nil {
		defer want.Candidate.Close() //nolint:errcheck // only read
	}
	service, done, err := connect(ctx, want.Unit)
	if err != nil {
		return refusal(err)
	}
	defer done()
	result := carryOut(ctx, service, want, meta.checkMode)
	r := resultReply(result, want, meta.checkMode)
	r.NeedCandidate = needsCandidate(meta, v, result)
	if meta.diff && result.Outcome != activation.OutcomeRefused {
		r.Diff = newDiff(result, want.Layout.Path)
	}
	return r
}

// What the module calls, in variables for tests, which must not run what a
// fuzzer makes up.
var (
	activate  = activation.Activate
	preflight = activation.Preflight
	observe   = activation.Observe
)

// carryOut is the one place where check mode makes a difference.
func carryOut(ctx context.Context, service activation.Service, want activation.Want, checkMode bool) activation.Result {
	do := activate
	if checkMode {
		do = preflight
	}
	result, err := do(ctx, activation.NewHost(), service, want)
	if err != nil && result.Err == nil {
		result.Err = asError(err)
	}
	return result
}

// onThisHost leaves out a src that is no path on this host.
func onThisHost(c channel, v values) values {
	if c.candidate == nil {
		return v
	}
	v = maps.Clone(v)
	v["src"] = nil
	return v
}

// refuseUnsentSource is for a src on the controller that reached the host as a
// bare name: only the action plugin can send the file.
func refuseUnsentSource(meta meta, v values) error {
	if v.str("state") != string(activation.Present) || v["src"] == nil || v.bool("remote_src") || meta.channel.candidate != nil {
		return nil
	}
	return &activation.Error{Kind: activation.KindInvalidArgs, Step: stepArguments,
		Detail: "src '" + v.str("src") + "' is on the controller, and the action plugin that sends it did not run",
		Hint:   "put the candidate on the host and set remote_src: true, or install the whole collection " + collection[:len(collection)-1] + " on the controller"}
}

// openCandidate pins the candidate, if the arguments name one.
func openCandidate(v values, c channel, want *activation.Want) error {
	switch {
	case want.State != activation.Present:
		return nil
	case c.candidate != nil && c.sent == "":
		want.Candidate = activation.DescribeCandidate(c.srcName, c.candidate.sha256, c.candidate.size, c.candidate.head)
		return nil
	case c.candidate != nil:
		return openSent(c, want)
	case v.str("src") == "":
		return nil
	}
	var err error
	want.Candidate, err = activation.OpenCandidate(v.str("src"))
	return err
}

// openSent pins the candidate that came from the controller. What arrived must
// be what the controller spoke of, whether or not the user gave a checksum.
func openSent(c channel, want *activation.Want) error {
	candidate, err := activation.OpenCandidate(c.sent)
	if err != nil {
		return err
	}
	candidate.Name = c.srcName
	want.Candidate = candidate
	want.Checksum = cmp.Or(want.Checksum, c.candidate.sha256)
	return nil
}

// needsCandidate tells whether the action plugin must send the candidate and
// ask again.
func needsCandidate(meta meta, v values, result activation.Result) bool {
	if meta.channel.candidate == nil || meta.channel.sent != "" {
		return false
	}
	if !meta.checkMode {
		return result.Err != nil && errors.Is(result.Err, activation.ErrCandidateNotHere)
	}
	isInstall := func(s activation.Step) bool { return s.Step == activation.StepInstall }
	return v.bool("verify_in_check_mode") && slices.ContainsFunc(result.Plan, isInstall)
}

// connect returns the service of unit, a nil interface when there is no unit.
func connect(ctx context.Context, unit string) (service activation.Service, done func(), err error) {
	if unit == "" {
		return nil, func() {}, nil
	}
	s, err := systemd.Connect(ctx, unit)
	if err != nil {
		return nil, nil, connectError(unit, err)
	}
	return s, s.Close, nil
}

func connectError(unit string, err error) error {
	e := &activation.Error{Kind: activation.KindIO, Step: "observe", Detail: "can't ask systemd about " + unit, Err: err}
	switch {
	case errors.Is(err, systemd.ErrNotBooted):
		e.Kind, e.Hint = activation.KindUnitNotFound, "leave unit out to manage only the files, for example in an image that is being built"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Hint = activation.KindNotPermitted, "run as root (become: true)"
	case errors.Is(err, context.Canceled):
		e.Kind = activation.KindCancelled
	}
	return e
}
