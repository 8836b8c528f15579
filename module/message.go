// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/lastgood/lastgood/activation"
)

// Messages. A failure says what and where, what state the host is left in,
// and what to do next, in this order. They are read on a terminal at night:
// whole sentences, full paths, and of a digest the first twelve digits.

func message(result activation.Result, want activation.Want, checkMode bool) string {
	if result.Err != nil {
		return failureMessage(result)
	}
	return successMessage(result, want, checkMode)
}

func successMessage(result activation.Result, want activation.Want, checkMode bool) string {
	path, after := want.Layout.Path, result.After
	if result.Outcome == activation.OutcomeUnchanged {
		return fmt.Sprintf("%s is %s already; nothing to do", path, identity(after))
	}
	done, would := "activated", "would activate"
	switch result.Outcome {
	case activation.OutcomeAdopted:
		done, would = "adopted", "would adopt"
	case activation.OutcomeRepaired:
		done, would = "repaired the layout around", "would repair the layout around"
	case activation.OutcomeRolledBack:
		done, would = "rolled back to", "would roll back to"
	}
	text := done + " " + identity(after)
	if checkMode {
		text = would + " " + identity(after)
	}
	if after.Current != "" {
		text += " in " + after.Current
	}
	if good := lastGood(result); good != "" {
		text += "; last-good is " + good
	}
	return text
}

// lastGood says what last-good is after a success, when that is not what is
// active.
func lastGood(result activation.Result) string {
	before, after := result.Before, result.After
	switch {
	case after.LastGood == "" || after.LastGood == after.Current:
		return ""
	case before.Version != "" && before.SHA256 != after.SHA256 && result.Outcome == activation.OutcomeActivated:
		return before.Version
	default:
		return after.LastGood
	}
}

// identity names an executable by its version and digest.
func identity(f activation.Facts) string {
	switch digest := short(f.SHA256); {
	case f.Version != "" && digest != "":
		return fmt.Sprintf("%s (sha256 %s)", f.Version, digest)
	case f.Version != "":
		return f.Version
	case digest != "":
		return "sha256 " + digest
	default:
		return "as wanted"
	}
}

// short is enough of a digest for people.
func short(sha256 string) string {
	const enough = 12
	return sha256[:min(enough, len(sha256))]
}

func failureMessage(result activation.Result) string {
	e := result.Err
	return sentence(e.Error()) + " " + leftState(result) + advice(e.Hint)
}

// leftState says what state the host is left in.
func leftState(result activation.Result) string {
	switch result.Outcome {
	case activation.OutcomeRefused:
		return "Nothing was changed."
	case activation.OutcomeFailedUnchanged:
		return fmt.Sprintf("The host runs what it ran before: %s.", identity(result.After))
	case activation.OutcomeFailedRolledBack:
		return fmt.Sprintf("The host was rolled back: %s is active again in %s%s.", identity(result.After), result.After.Current, unitState(result.After.Unit))
	default:
		return dirtyState(result)
	}
}

func dirtyState(result activation.Result) string {
	text := fmt.Sprintf("A person has to look at this host: current is %s (%s), last-good is %s%s.",
		orNothing(result.After.Current), identity(result.After), orNothing(result.After.LastGood), unitState(result.After.Unit))
	switch r := result.Rollback; {
	case r == nil || !r.Attempted:
		return "It was not rolled back. " + text
	case !r.Succeeded:
		return "The rollback failed too: " + sentence(r.Error) + " " + text
	default:
		return text
	}
}

func orNothing(path string) string {
	if path == "" {
		return "nothing"
	}
	return path
}

func unitState(unit *activation.UnitFacts) string {
	if unit == nil || unit.ActiveState == "" {
		return ""
	}
	text := ", and its unit is " + unit.ActiveState
	if unit.SubState != "" {
		text += " (" + unit.SubState + ")"
	}
	return text
}

// refusalMessage leaves ansible-core's own words as they are: playbooks and
// people know them.
func refusalMessage(e *activation.Error) string {
	if e.Kind == activation.KindInvalidArgs && e.Hint == "" {
		return e.Error()
	}
	return sentence(e.Error()) + " Nothing was changed." + advice(e.Hint)
}

// sentence ends text with a full stop. It leaves the first letter alone, which
// is often that of a path, a unit or a parameter.
func sentence(text string) string { return strings.TrimRight(text, " .\n") + "." }

// advice is a hint as a sentence of its own.
func advice(hint string) string {
	if hint == "" {
		return ""
	}
	return " " + sentence(strings.ToUpper(hint[:1])+hint[1:])
}
