// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/lastgood/lastgood/activation"
)

// meta is what Ansible says about the call, in keys that begin with _ansible_,
// and what our action plugin says, in _lastgood.
type meta struct {
	fqcn          string
	checkMode     bool
	diff          bool
	noLog         bool
	ignoreUnknown bool
	noInvocation  bool
	facility      string // syslog's, as LOG_USER
	logInfo       string // a prefix for the log line
	channel       channel
}

const (
	metaPrefix = "_ansible_"
	channelKey = "_lastgood"
)

// splitMeta takes Ansible's and the action plugin's keys out of the arguments.
// Any key of Ansible's is accepted, because every version adds some.
func splitMeta(m module, all map[string]gjson.Result) (meta, map[string]gjson.Result, error) {
	given := map[string]gjson.Result{}
	for name, value := range all {
		if name != channelKey && !strings.HasPrefix(name, metaPrefix) {
			given[name] = value
		}
	}
	flag := func(name string) bool { return all[metaPrefix+name].Bool() }
	inject := all[metaPrefix+"inject_invocation"]
	result := meta{
		fqcn:          all[metaPrefix+"module_name"].String(),
		checkMode:     flag("check_mode"),
		diff:          flag("diff"),
		noLog:         flag("no_log"),
		ignoreUnknown: flag("ignore_unknown_opts"),
		noInvocation:  inject.Type == gjson.False,
		facility:      all[metaPrefix+"syslog_facility"].String(),
		logInfo:       all[metaPrefix+"target_log_info"].String(),
	}
	if result.fqcn == "" {
		result.fqcn = collection + m.name
	}
	var err error
	result.channel, err = parseChannel(all[channelKey])
	return result, given, err
}

// channel is what the action plugin tells the binary beside the task's own
// arguments, about a candidate that is on the controller.
type channel struct {
	srcName   string          // what the user called it
	candidate *candidateFacts // nil: src is on this host, or there is none
	sent      string          // the file that the candidate was sent to; empty: it was not
}

// candidateFacts are what the controller knows of the candidate.
type candidateFacts struct {
	sha256 string
	size   int64
	head   []byte // its first bytes, 4096 of them if it has so many
}

func parseChannel(v gjson.Result) (channel, error) {
	if v.Type == gjson.Null {
		return channel{}, nil
	}
	if err := onlyKeys(v, channelKey, "src_name", "candidate", "sent"); err != nil {
		return channel{}, err
	}
	facts, err := parseCandidate(v.Get("candidate"))
	if err != nil {
		return channel{}, err
	}
	return channel{srcName: v.Get("src_name").String(), candidate: facts, sent: v.Get("sent").String()}, nil
}

func parseCandidate(v gjson.Result) (*candidateFacts, error) {
	if v.Type == gjson.Null {
		return nil, nil
	}
	if err := onlyKeys(v, channelKey+".candidate", "sha256", "size", "head"); err != nil {
		return nil, err
	}
	digest, err := parseChecksum(v.Get("sha256").String())
	if err != nil {
		return nil, err
	}
	head, err := base64.StdEncoding.DecodeString(v.Get("head").String())
	if err != nil {
		return nil, channelError(channelKey + ".candidate.head is not base64")
	}
	return &candidateFacts{sha256: digest, size: v.Get("size").Int(), head: head}, nil
}

func onlyKeys(v gjson.Result, where string, allowed ...string) error {
	if !v.IsObject() {
		return channelError(where + " is no dict")
	}
	for name := range v.Map() {
		if !slices.Contains(allowed, name) {
			return channelError(where + " has an unknown key " + name)
		}
	}
	return nil
}

func channelError(detail string) error {
	return &activation.Error{Kind: activation.KindInvalidArgs, Step: stepArguments, Detail: detail,
		Hint: "only the collection's action plugin sets " + channelKey + "; install a collection and a binary of the same version"}
}
