// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lastgood/lastgood/activation"
)

// What people see by hand: the plan, the facts before and after, and last,
// where the eye rests, the verdict.

func report(r reply) string {
	var b strings.Builder
	if r.info != nil {
		writeInfo(&b, r.info, r.Audit)
		return b.String()
	}
	if len(r.Plan) > 0 {
		writePlan(&b, r.Plan)
	}
	if r.Before != nil && r.After != nil && r.Changed {
		writeChange(&b, *r.Before, *r.After)
	}
	return b.String()
}

func verdict(r reply) string {
	var b strings.Builder
	for _, warning := range r.Warnings {
		b.WriteString("warning: " + oneLine(warning) + "\n")
	}
	if r.Audit != nil {
		for _, sentence := range r.Drift {
			b.WriteString("drift: " + oneLine(sentence) + "\n")
		}
	}
	if r.Failed {
		b.WriteString("lastgood: ")
	}
	b.WriteString(oneLine(r.Msg) + "\n")
	if r.Exception != "" {
		b.WriteString(r.Exception)
	}
	return b.String()
}

// oneLine keeps control characters, which a version command or a file's name
// may hold, away from the terminal.
func oneLine(s string) string { return strings.Map(printable, s) }

func writePlan(b *strings.Builder, plan []activation.Step) {
	b.WriteString("plan (* changes the host)\n")
	var rows [][]string
	for _, step := range plan {
		mark := " "
		if step.Changes {
			mark = "*"
		}
		rows = append(rows, []string{mark + " " + step.Step, step.Target, step.Detail})
	}
	writeRows(b, rows)
	b.WriteString("\n")
}

func writeChange(b *strings.Builder, before, after activation.Facts) {
	var rows [][]string
	old := factLines(before)
	for i, line := range factLines(after) {
		if line.value != "" && line.value != old[i].value {
			rows = append(rows, []string{line.name, orNothing(old[i].value), "-> " + line.value})
		}
	}
	if rows == nil {
		return
	}
	b.WriteString("facts, before -> after\n")
	writeRows(b, rows)
	b.WriteString("\n")
}

// writeRows aligns columns; the last one is left as long as it is.
func writeRows(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := " "
		for i, cell := range row {
			line += " " + oneLine(cell) + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// historyShown is how many records a person wants to see.
const historyShown = 5

func writeInfo(b *strings.Builder, i *info, audit *activation.Audit) {
	rows := [][]string{{"layout", string(audit.LayoutState)}}
	for _, line := range factLines(*i.Facts) {
		if line.value != "" && line.name != "managed" {
			rows = append(rows, []string{line.name, line.value})
		}
	}
	for _, name := range []string{"blue", "green"} {
		rows = append(rows, []string{name, slotText(audit.Slots[name])})
	}
	rows = append(rows, []string{"lock", lockText(audit.LockHolder)})
	if audit.Signal != nil {
		rows = append(rows, []string{"signal", strings.TrimSpace(audit.Signal.Path + " " + audit.Signal.Operation)})
	}
	if audit.Pending != nil {
		rows = append(rows, []string{"pending", pendingText(audit.Pending)})
	}
	newest := slices.Clone(i.History[max(0, len(i.History)-historyShown):])
	slices.Reverse(newest)
	for _, record := range newest {
		rows = append(rows, []string{record.At.UTC().Format(time.RFC3339), recordText(record)})
	}
	writeRows(b, rows)
	b.WriteString("\n")
}

func pendingText(p *activation.Pending) string {
	if p.Unreadable {
		return "an activation was interrupted; its marker can't be read"
	}
	return "switched to " + p.Slot + ", not confirmed"
}

func slotText(s activation.SlotFacts) string {
	if s.SHA256 == "" {
		return s.Path + ": no executable"
	}
	return s.Path + ": " + identity(activation.Facts{SHA256: s.SHA256, Version: s.Version})
}

func lockText(holder int) string {
	switch {
	case holder == 0:
		return "free"
	case holder < 0:
		return "held"
	default:
		return fmt.Sprintf("held by process %d", holder)
	}
}

func recordText(record activation.Record) string {
	words := []string{string(record.Outcome), identity(activation.Facts{SHA256: record.SHA256, Version: record.Version})}
	if record.Proof != "" {
		words = append(words, string(record.Proof))
	}
	return strings.Join(words, ", ")
}
