// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/lastgood/lastgood/activation"
)

// info is what daemon_binary_info and `lastgood status` report, beside the
// audit, which check mode reports too.
type info struct {
	Facts   *activation.Facts   `json:"facts"`
	History []activation.Record `json:"history"`
}

func performInfo(ctx context.Context, v values) reply {
	want, err := buildWant(v)
	if err != nil {
		return refusal(err)
	}
	service, done, err := connect(ctx, want.Unit)
	if err != nil {
		return refusal(err)
	}
	defer done()
	observed, err := observe(ctx, activation.NewHost(), service, want)
	if err != nil {
		return refusal(err)
	}
	return infoReply(observed, want)
}

func infoReply(observed *activation.Observed, want activation.Want) reply {
	facts, audit := observed.Facts(), observed.Audit()
	history := observed.History
	if history == nil {
		history = []activation.Record{}
	}
	return reply{
		Msg:      want.Layout.Path + " is " + describe(facts, audit),
		Warnings: observed.Warnings,
		Audit:    &audit,
		info:     &info{Facts: &facts, History: history},
	}
}

func describe(facts activation.Facts, audit activation.Audit) string {
	text := identity(facts) + ", " + string(audit.LayoutState)
	switch {
	case audit.LayoutState == activation.Fresh:
		text = "not installed"
	case facts.SHA256 == "":
		text = "in both slots, and nothing tells which of them is active"
	}
	if len(audit.Drift) > 0 {
		text += ", and has drifted"
	}
	return text
}
