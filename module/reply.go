// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lastgood/lastgood/activation"
)

// reply is the one object that the module prints. Arrays that are empty and
// those that are absent mean different things, hence omitzero.
type reply struct {
	Changed    bool                       `json:"changed"`
	Failed     bool                       `json:"failed"`
	Msg        string                     `json:"msg"`
	Outcome    activation.Outcome         `json:"outcome,omitempty"`
	Error      *replyError                `json:"error,omitempty"`
	Rollback   *activation.RollbackReport `json:"rollback,omitempty"`
	Plan       []activation.Step          `json:"plan,omitzero"`
	Before     *activation.Facts          `json:"before,omitempty"`
	After      *activation.Facts          `json:"after,omitempty"`
	Candidate  *activation.CandidateFacts `json:"candidate,omitempty"`
	Timing     *activation.Timing         `json:"timing,omitempty"`
	Diff       *diff                      `json:"diff,omitempty"`
	Decisions  []string                   `json:"decisions,omitempty"` // only with -vvv
	Warnings   []string                   `json:"warnings,omitempty"`
	Invocation *invocation                `json:"invocation,omitempty"`
	Exception  string                     `json:"exception,omitempty"` // Ansible shows it with -vvv

	// For the action plugin: send the candidate and ask again.
	NeedCandidate bool `json:"_lastgood_need_candidate,omitempty"`

	*activation.Audit // only of daemon_binary_info and of check mode
	*info             // only of daemon_binary_info
}

type replyError struct {
	Kind   activation.Kind `json:"kind"`
	Step   string          `json:"step,omitempty"`
	Detail string          `json:"detail"`
	Hint   string          `json:"hint,omitempty"`
}

type invocation struct {
	ModuleArgs values `json:"module_args"`
}

// resultReply is the reply to a call of the library.
func resultReply(result activation.Result, want activation.Want, checkMode bool) reply {
	r := reply{
		Changed:   result.Changed,
		Failed:    result.Err != nil,
		Msg:       message(result, want, checkMode),
		Outcome:   result.Outcome,
		Error:     errorOf(result.Err),
		Rollback:  result.Rollback,
		Plan:      result.Plan,
		Before:    known(result.Before),
		After:     known(result.After),
		Candidate: result.Candidate,
		Timing:    &result.Timing,
		Decisions: result.Decisions,
		Warnings:  result.Warnings,
	}
	if r.Plan == nil {
		r.Plan = []activation.Step{}
	}
	if checkMode && result.Observed != nil {
		audit := result.Observed.Audit()
		r.Audit = &audit
	}
	return r
}

// known returns nil for facts that nobody looked at.
func known(f activation.Facts) *activation.Facts {
	if f == (activation.Facts{}) {
		return nil
	}
	return &f
}

// refusal is the reply to an error that came before anything was looked at.
func refusal(err error) reply {
	e := asError(err)
	return reply{Failed: true, Msg: refusalMessage(e), Outcome: activation.OutcomeRefused, Error: errorOf(e)}
}

// asError makes sure that every error has its kind.
func asError(err error) *activation.Error {
	if e := (*activation.Error)(nil); errors.As(err, &e) {
		return e
	}
	return &activation.Error{Kind: activation.KindInternal, Detail: err.Error(), Hint: reportHint}
}

const reportHint = "this is a bug in lastgood: please report it with this message"

// bug is the reply to a panic. What the host is like is anybody's guess, so no
// outcome is claimed; the next run settles what this one left.
func bug(panicked any) reply {
	e := &activation.Error{Kind: activation.KindInternal, Detail: fmt.Sprintf("lastgood panicked: %v", panicked),
		Hint: "run it again in check mode to see how the host was left, and report the bug with this message"}
	return reply{
		Failed:    true,
		Msg:       sentence(e.Detail) + " It is not known what state the host is in." + advice(e.Hint),
		Error:     errorOf(e),
		Exception: string(debug.Stack()),
	}
}

func errorOf(e *activation.Error) *replyError {
	if e == nil {
		return nil
	}
	return &replyError{Kind: e.Kind, Step: e.Step, Detail: e.Error(), Hint: e.Hint}
}

// messageMost is more than any message has that people read. What an argument
// holds, a file's content perhaps, stands in the middle of a message.
const messageMost = 2000

func (r *reply) shorten() {
	r.Msg = shortened(r.Msg)
	if r.Error != nil {
		r.Error.Detail = shortened(r.Error.Detail)
	}
}

func shortened(text string) string {
	if len(text) <= messageMost {
		return text
	}
	return strings.ToValidUTF8(text[:messageMost/2], "") + " ... " + strings.ToValidUTF8(text[len(text)-messageMost/2:], "")
}

// encode returns the reply on one line of ASCII: Ansible splits the output at
// whatever Unicode calls a line end, also inside of strings, and refuses bytes
// that are not UTF-8.
func (r reply) encode() []byte {
	raw, err := json.Marshal(r)
	if err != nil { // no type in a reply can fail
		panic(err)
	}
	return append(toASCII(raw), '\n')
}

// del is the last of ASCII, and the one that JSON lets through unprintable.
const del = 0x7f

// toASCII escapes what is outside of ASCII, which in JSON only strings hold.
func toASCII(raw []byte) []byte {
	ascii := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		switch {
		case r < del:
			ascii = append(ascii, raw[0])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			ascii = fmt.Appendf(ascii, `\u%04x\u%04x`, high, low)
		default:
			ascii = fmt.Appendf(ascii, `\u%04x`, r)
		}
		raw = raw[size:]
	}
	return ascii
}

// censored returns the arguments as they may be shown: a URL's password is not.
func censored(v values) values {
	shown := values{}
	for name, value := range v {
		shown[name] = censor(value)
	}
	return shown
}

func censor(value any) any {
	switch v := value.(type) {
	case string:
		return censorURL(v)
	case []string:
		list := make([]string, 0, len(v))
		for _, s := range v {
			list = append(list, censorURL(s))
		}
		return list
	case values:
		if v == nil {
			return nil
		}
		return censored(v)
	default:
		return value
	}
}

// censorURL hides the password of every scheme://user:password@host in s.
func censorURL(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "://")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.IndexAny(after, "/ \t\n'\"")
		if end < 0 {
			end = len(after)
		}
		b.WriteString("://" + censorAuthority(after[:end]))
		s = after[end:]
	}
}

func censorAuthority(authority string) string {
	at := strings.LastIndex(authority, "@")
	if user, _, hasPassword := strings.Cut(authority[:max(at, 0)], ":"); hasPassword {
		return user + ":********" + authority[at:]
	}
	return authority
}
