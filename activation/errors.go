// SPDX-License-Identifier: Apache-2.0

package activation

import "fmt"

// Kind says what went wrong, from a closed list that programs may rely on.
type Kind string

// The kinds. docs/errors.md says for each what to do.
const (
	KindInvalidArgs        Kind = "invalid_args"
	KindNotPermitted       Kind = "not_permitted"
	KindUnitNotFound       Kind = "unit_not_found"
	KindUnitMasked         Kind = "unit_masked"
	KindUnitEntrypoint     Kind = "unit_entrypoint"
	KindLayoutConflict     Kind = "layout_conflict"
	KindLayoutAlias        Kind = "layout_alias"
	KindUnsafePath         Kind = "unsafe_path"
	KindCandidateMissing   Kind = "candidate_missing"
	KindCandidateInPlace   Kind = "candidate_in_place"
	KindNotExecutable      Kind = "not_executable"
	KindWrongArchitecture  Kind = "wrong_architecture"
	KindMissingInterpreter Kind = "missing_interpreter"
	KindChecksumMismatch   Kind = "checksum_mismatch"
	KindVersionFailed      Kind = "version_failed"
	KindVersionTimeout     Kind = "version_timeout"
	KindVersionMismatch    Kind = "version_mismatch"
	KindRejected           Kind = "rejected"
	KindNoSpace            Kind = "no_space"
	KindReadOnly           Kind = "read_only"
	KindNoExec             Kind = "noexec"
	KindImmutable          Kind = "immutable"
	KindLockBusy           Kind = "lock_busy"
	KindSignalPresent      Kind = "signal_present"
	KindPendingUnresolved  Kind = "pending_unresolved"
	KindChangedUnderfoot   Kind = "changed_underfoot"
	KindIO                 Kind = "io_error"
	KindReloadFailed       Kind = "reload_failed"
	KindRestartFailed      Kind = "restart_failed"
	KindUnhealthy          Kind = "unhealthy"
	KindRollbackFailed     Kind = "rollback_failed"
	KindCancelled          Kind = "cancelled"
	KindInternal           Kind = "internal"
)

// Error is every error that leaves this package. Detail says what and where,
// without a trailing full stop; Hint says what to do next. The state that the
// host is left in is Result's to tell, because only Activate knows it.
type Error struct {
	Kind   Kind
	Step   string // the plan's step, or "observe", "lock", "rollback"
	Detail string
	Hint   string
	Err    error // the cause, if another error is
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Detail, e.Err)
	}
	return e.Detail
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
