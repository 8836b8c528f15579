// SPDX-License-Identifier: Apache-2.0

package activation

// Outcome says in one word how a call ended.
type Outcome string

// The outcomes. Refused: nothing was tried. FailedUnchanged: something was
// tried, and nothing of it is left that matters to the daemon. FailedDirty: a
// person has to look.
const (
	OutcomeUnchanged        Outcome = "unchanged"
	OutcomeAdopted          Outcome = "adopted"
	OutcomeActivated        Outcome = "activated"
	OutcomeRepaired         Outcome = "repaired"
	OutcomeRolledBack       Outcome = "rolled_back"
	OutcomeRefused          Outcome = "refused"
	OutcomeFailedUnchanged  Outcome = "failed_unchanged"
	OutcomeFailedRolledBack Outcome = "failed_rolled_back"
	OutcomeFailedDirty      Outcome = "failed_dirty"
)

// Result is what Preflight and Activate report. After a Preflight, After is
// the prediction, and what can't be predicted is left out of it.
type Result struct {
	Outcome   Outcome
	Changed   bool // something on the host is (after a Preflight: would be) different
	Plan      []Step
	Before    Facts
	After     Facts
	Candidate *CandidateFacts
	Rollback  *RollbackReport // nil when none was considered
	Err       *Error          // nil unless Outcome is Refused or Failed...
	Warnings  []string
	Timing    Timing
	Observed  *Observed // everything that was seen before the first change
	Decisions []string  // why the plan is as it is: a sentence each, without a full stop
}

// Facts are the observable state of one managed executable.
type Facts struct {
	Managed    bool       `json:"managed"`
	Current    string     `json:"current,omitempty"`     // what current resolves to
	LastGood   string     `json:"last_good,omitempty"`   // what last-good resolves to
	ActiveSlot string     `json:"active_slot,omitempty"` // blue, green, or empty
	SHA256     string     `json:"sha256,omitempty"`
	Version    string     `json:"version,omitempty"`
	Size       int64      `json:"size,omitempty"` // bytes
	Mode       string     `json:"mode,omitempty"` // octal, four digits
	Owner      string     `json:"owner,omitempty"`
	Group      string     `json:"group,omitempty"`
	Unit       *UnitFacts `json:"unit,omitempty"`
}

// UnitFacts are the part of Facts that is about the unit.
type UnitFacts struct {
	ActiveState   string  `json:"active_state,omitempty"`
	SubState      string  `json:"sub_state,omitempty"`
	MainPID       int     `json:"main_pid,omitempty"`
	RunningSHA256 string  `json:"running_sha256,omitempty"`
	NRestarts     *uint32 `json:"n_restarts,omitempty"`
}

// CandidateFacts describe the candidate.
type CandidateFacts struct {
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"` // bytes
	Version string `json:"version,omitempty"`
	Arch    string `json:"arch,omitempty"` // as `uname -m` says it; "script" for a script
}

// RollbackReport tells a rollback that was tried from one that worked.
type RollbackReport struct {
	Attempted bool   `json:"attempted"`
	Succeeded bool   `json:"succeeded"`
	Reason    string `json:"reason,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Timing is in milliseconds. Downtime is the time without a healthy process:
// from the stop of the old one to the start of the new one's stable window.
type Timing struct {
	Total    int64 `json:"total"`
	Hash     int64 `json:"hash"`
	Copy     int64 `json:"copy"`
	Restart  int64 `json:"restart"`
	Health   int64 `json:"health"`
	Downtime int64 `json:"downtime"`
}
