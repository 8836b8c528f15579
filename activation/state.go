// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The files of a managed path below StateDir.
const (
	pendingName = "pending.json"
	historyName = "history.jsonl"
)

// historyKept is how many records the history holds.
const historyKept = 100

// Pending is the marker that says "current was switched, or is about to be,
// and the new process is not confirmed": the one thing that names and links
// can't tell.
type Pending struct {
	Slot       string    `json:"slot"`   // what current is switched to
	SHA256     string    `json:"sha256"` // its digest
	LastGood   string    `json:"last_good"`
	Unit       string    `json:"unit,omitempty"`
	Ran        bool      `json:"ran"` // the unit ran, or should have
	BootID     string    `json:"boot_id,omitempty"`
	At         time.Time `json:"at"`
	Unreadable bool      `json:"-"` // the marker is there and its content is not
}

// Proof says what is known of an executable from running it on this host.
type Proof string

// The proofs.
const (
	ProofHealthy    Proof = "healthy"     // it was confirmed
	ProofNotChecked Proof = "not_checked" // it was made active while its unit was stopped
	ProofRejected   Proof = "rejected"    // it was started and did not become healthy
)

// Record is one line of the history.
type Record struct {
	At      time.Time `json:"at"`
	Outcome Outcome   `json:"outcome"`
	SHA256  string    `json:"sha256,omitempty"` // the executable that Proof speaks of
	Version string    `json:"version,omitempty"`
	Proof   Proof     `json:"proof,omitempty"`
	Detail  string    `json:"detail,omitempty"`

	// What was active before, where that is another executable. Its version
	// was asked for then; later it is in a slot that nobody runs.
	FromSHA256  string `json:"from_sha256,omitempty"`
	FromVersion string `json:"from_version,omitempty"`

	// The digests of the files in the slots, by the state of their inodes. Only
	// the last line has them, and what Observe returns has none.
	Digests map[string]string `json:"digests,omitempty"`
}

// proofOf is the newest proof about an executable, or "".
func proofOf(history []Record, sha256 string) Proof {
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].SHA256 == sha256 && history[i].Proof != "" {
			return history[i].Proof
		}
	}
	return ""
}

// versionOf is the version that an executable last reported, or "".
func versionOf(history []Record, sha256 string) string {
	for i := len(history) - 1; i >= 0; i-- {
		switch r := history[i]; {
		case r.SHA256 == sha256 && r.Version != "":
			return r.Version
		case r.FromSHA256 == sha256 && r.FromVersion != "":
			return r.FromVersion
		}
	}
	return ""
}

// stateFile is the path of one of our own files about path.
func (w Want) stateFile(name string) string {
	return filepath.Join(w.stateFolder(), name)
}

func (w Want) stateFolder() string {
	return filepath.Join(w.StateDir, stateFolder(w.Layout.Path))
}

// readPending returns nil where there is no marker.
func readPending(path string) (*Pending, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	p := &Pending{}
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	if err != nil || p.Slot == "" {
		return &Pending{Unreadable: true}, nil //nolint:nilerr // unreadable means pending
	}
	return p, nil
}

// readHistory skips lines that it can't read: a record is worth less than the
// run that would be refused for it.
func readHistory(path string) ([]Record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var records []Record
	for line := range bytes.Lines(data) {
		var r Record
		if json.Unmarshal(line, &r) == nil {
			records = append(records, r)
		}
	}
	return records, err
}

func encodeHistory(records []Record) ([]byte, error) {
	var b bytes.Buffer
	for _, r := range records[max(0, len(records)-historyKept):] {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes(), nil
}

// Signal is another upgrader's word that its own activation is not reported
// yet. The field names are those of the file.
type Signal struct {
	Path      string `json:"path"`
	Operation string `json:"operationName,omitempty"`
	Message   string `json:"message,omitempty"`
}

// signalMost bounds what is read of another program's file.
const signalMost = 64 << 10

// readSignal returns nil where no signal is. A signal whose content can't be
// read is a signal all the same.
func readSignal(path string) (*Signal, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Signal{}
	if info.Mode().IsRegular() && info.Size() <= signalMost {
		if data, err := os.ReadFile(path); err == nil {
			_ = json.Unmarshal(data, s) // its presence is what counts
		}
	}
	s.Path = path
	s.Operation, s.Message = clip(s.Operation), clip(s.Message)
	return s, nil
}
