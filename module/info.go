// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/lastgood/lastgood/activation"
)

// info is what daemon_binary_info and `lastgood status` report.
type info struct {
	Facts      *activation.Facts   `json:"facts"`
	Slots      map[string]slotInfo `json:"slots"`
	History    []activation.Record `json:"history"`
	LockHolder int                 `json:"lock_holder"` // PID; 0: nobody, -1: somebody who can't be named
	Signal     *activation.Signal  `json:"signal"`
	Pending    *activation.Pending `json:"pending"`
}

type slotInfo struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"` // empty: no executable there
	Size   int64  `json:"size,omitempty"`
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
	facts := observed.Facts()
	history := observed.History
	if history == nil {
		history = []activation.Record{}
	}
	return reply{
		Msg:      want.Layout.Path + " is " + describe(facts),
		Warnings: observed.Warnings,
		info: &info{
			Facts:      &facts,
			Slots:      map[string]slotInfo{"blue": slot(observed, activation.RoleBlue), "green": slot(observed, activation.RoleGreen)},
			History:    history,
			LockHolder: observed.LockHolder,
			Signal:     observed.Signal,
			Pending:    observed.Pending,
		},
	}
}

func describe(facts activation.Facts) string {
	switch {
	case facts.SHA256 == "":
		return "not installed"
	case facts.Managed:
		return identity(facts) + ", managed"
	default:
		return identity(facts) + ", not managed"
	}
}

func slot(observed *activation.Observed, role activation.Role) slotInfo {
	entry := observed.Entries[role]
	s := slotInfo{Path: entry.Path}
	if entry.File != nil {
		s.SHA256, s.Size = entry.File.SHA256, entry.File.Size
	}
	return s
}
