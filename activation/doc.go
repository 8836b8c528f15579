// SPDX-License-Identifier: Apache-2.0

// Package activation puts a new executable under a running daemon without ever
// losing the version that worked.
//
// # State
//
// Five names of one executable stand on a host, by default in one folder:
//
//	/usr/local/bin/foo            path       what people and units name
//	  -> foo-current              current    the slot that is active
//	     -> foo-blue              blue       a slot: a complete executable
//	        foo-green             green      the other slot
//	        foo-last-good         last-good  link to the slot that last ran healthily
//
// An upgrade writes the candidate into the free slot, points last-good at the
// slot that works, then current at the candidate, restarts the daemon and waits
// for a stable window: one process of that very executable which neither ends
// nor is started again. If the window does not come, current goes back to
// last-good and the daemon has to prove its health again. A host where path is
// still one plain file is legacy: it is adopted first, by a hard link, so that
// what runs is what the slot holds.
//
// The names are the state. Two small files beside them say what names can't:
// pending.json, that current was switched and is not confirmed yet, and
// history.jsonl, which executables were healthy here and which were not.
//
// # Flow
//
// [Observe] only reads. [Decide] is pure: it turns what was observed and what is
// wanted into a [Plan], or into a refusal. [Apply] does the plan's steps, one by
// one, and undoes what it has switched when one fails; it adds none. [Preflight]
// is the first two, [Activate] all three under the lock. Whoever imports the
// package calls one of these two, with [NewHost] and a [Service] of their own:
// package systemd has the one for systemd.
//
// # Invariants
//
// Tests cite these numbers.
//
//   - I1: at every instant, also across a kill or a loss of power, path and
//     current resolve to a complete, verified executable.
//   - I2: at every instant once managed, last-good resolves to a complete
//     executable that ran healthily here, and no step overwrites that file.
//   - I3: what is verified is what is installed: the candidate is opened once,
//     pinned, and never looked up by name again.
//   - I4: a preflight changes nothing: no file, link, folder, lock file, time
//     stamp, unit or process, and leaves no temporary file.
//   - I5: preflight and activation have one planner: the same state gives the
//     same plan, and an activation does that plan's steps or their undo.
//   - I6: a second run changes nothing and restarts nothing.
//   - I7: a failed activation ends on last-good, running and healthy, or says
//     failed_dirty with both errors. Cancelling does not stop a rollback.
//   - I8: after any interruption the next run finishes or undoes the interrupted
//     activation before anything else.
//   - I9: two upgraders never change a host at the same time, as long as both
//     take the lock and honour the signal file.
//   - I10: a unit that was stopped stays stopped; one that ran runs at the end.
//
// # Not promised
//
// What the daemon itself did to its data is not undone. File systems shared by
// several hosts are not supported, nor is systemd older than 239.
package activation
