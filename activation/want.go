// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"io/fs"
	"time"
)

// State is the wanted state.
type State string

// The states. Present makes the candidate active and running; Adopted makes
// the layout managed and leaves what runs running; RolledBack makes current
// last-good again.
const (
	Present    State = "present"
	Adopted    State = "adopted"
	RolledBack State = "rolled_back"
)

// RestartPolicy says when the unit is restarted.
type RestartPolicy string

// The policies. RestartAuto restarts when the running process is not the
// wanted executable. None of them starts a unit that was stopped.
const (
	RestartAuto   RestartPolicy = "auto"
	RestartAlways RestartPolicy = "always"
	RestartNever  RestartPolicy = "never"
)

// Want is everything a caller asks for. NewWant gives the defaults.
type Want struct {
	State  State
	Layout Layout
	Unit   string // the unit's name, for messages and records; empty without a Service

	Candidate *Candidate // nil: Checksum names an executable that is already in a slot
	Checksum  string     // SHA-256 that the candidate must have, 64 hex digits; empty: any

	Version        string   // whole token that the version command must print; empty: any
	VersionArgs    []string // empty: the candidate is not run
	VersionTimeout time.Duration

	Owner *int         // nil: as the replaced executable
	Group *int         // nil: as the replaced executable
	Mode  *fs.FileMode // permission bits and setuid, setgid, sticky; nil: as the replaced executable

	LockPath    string
	LockTimeout time.Duration // how long to wait for another upgrader; 0: fail at once
	SignalPath  string        // another upgrader's pending signal; empty: none
	StateDir    string        // holds one folder for each managed path

	Restart  RestartPolicy
	Health   Health
	Rollback bool // on failure go back to last-good
	Force    bool // try a candidate that this host has rejected
}

// Health says what a healthy daemon is, beyond one process of the wanted
// executable that stays the same for the whole stable window.
type Health struct {
	StableFor time.Duration // length of the stable window
	Timeout   time.Duration // from the new process's start to the start of the window
	TCP       string        // host:port that must accept a connection; empty: not asked
	Command   []string      // must exit 0; empty: not asked
}

// Defaults of Want.
const (
	DefaultVersionTimeout = 10 * time.Second
	DefaultStableFor      = 3 * time.Second
	DefaultHealthTimeout  = 30 * time.Second
	DefaultStateDir       = "/var/lib/lastgood"
)

// NewWant returns a Want for the executable at path with every default.
func NewWant(path string, state State) Want {
	return Want{
		State:          state,
		Layout:         DefaultLayout(path, ""),
		VersionArgs:    []string{"--version"},
		VersionTimeout: DefaultVersionTimeout,
		LockPath:       DefaultLockPath(path),
		StateDir:       DefaultStateDir,
		Restart:        RestartAuto,
		Health:         Health{StableFor: DefaultStableFor, Timeout: DefaultHealthTimeout},
		Rollback:       true,
	}
}
