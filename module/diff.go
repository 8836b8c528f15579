// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"

	"github.com/lastgood/lastgood/activation"
)

// diff is what Ansible prints with --diff: before and after as a unified diff,
// then prepared as it is.
type diff struct {
	BeforeHeader string `json:"before_header"`
	AfterHeader  string `json:"after_header"`
	Before       string `json:"before"`
	After        string `json:"after"`
	Prepared     string `json:"prepared,omitempty"`
}

// newDiff keeps to the facts that differ, and to one line of steps, because
// people read it over a hundred hosts at once.
func newDiff(result activation.Result, path string) *diff {
	d := &diff{BeforeHeader: path, AfterHeader: path}
	before, after := factLines(result.Before), factLines(result.After)
	for i, line := range after {
		// What has no value afterwards can't be predicted.
		if line.value != "" && line.value != before[i].value {
			d.Before += before[i].String()
			d.After += line.String()
		}
	}
	if steps := changingSteps(result.Plan); steps != "" {
		d.Prepared = "steps: " + steps + "\n"
	}
	return d
}

func changingSteps(plan []activation.Step) string {
	var names []string
	for _, step := range plan {
		if step.Changes {
			names = append(names, strings.ReplaceAll(step.Step, "_", "-"))
		}
	}
	return strings.Join(names, ", ")
}

// factLine is one fact as people read it; a value of "" is no line.
type factLine struct{ name, value string }

func (l factLine) String() string {
	if l.value == "" {
		return ""
	}
	return l.name + ": " + l.value + "\n"
}

// factLines returns the same lines in the same order for all facts.
func factLines(f activation.Facts) []factLine {
	unit := activation.UnitFacts{}
	if f.Unit != nil {
		unit = *f.Unit
	}
	return []factLine{
		{"managed", yesNo(f.Managed)},
		{"version", f.Version},
		{"sha256", short(f.SHA256)},
		{"size", sizeText(f.Size)},
		{"current", f.Current},
		{"last-good", f.LastGood},
		{"mode", f.Mode},
		{"owner", f.Owner},
		{"group", f.Group},
		{"unit", unit.ActiveState},
		{"unit state", unit.SubState},
		{"running sha256", short(unit.RunningSHA256)},
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func sizeText(size int64) string {
	if size == 0 {
		return ""
	}
	return strconv.FormatInt(size, 10)
}
