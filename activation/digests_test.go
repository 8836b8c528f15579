// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// later is a host whose clock is ahead of its files'.
type later struct{ activation.Host }

func (later) Now() time.Time { return time.Now().Add(10 * time.Second) }

// upgradedBefore is a host that was upgraded to 2.0 a while ago, and its history.
func upgradedBefore(t *testing.T) (b *bed, w activation.Want, history string) {
	t.Helper()
	b = legacy(t)
	b.host = later{b.host}
	w = b.candidate("2.0", "ok")
	_, err := b.activate(w)
	require.NoError(t, err)
	found, err := filepath.Glob(b.path("state/*/history.jsonl"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return b, w, found[0]
}

const wrong = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

// What was recorded stands for a file that has not changed since, where nothing
// is to be done. Where something is, the files themselves are read.
func TestRecordedDigests(t *testing.T) {
	b, w, history := upgradedBefore(t)
	raw, err := os.ReadFile(history)
	require.NoError(t, err)
	digests := regexp.MustCompile(`(:\d+":")[0-9a-f]{64}"`)
	assert.Len(t, digests.FindAllString(string(raw), -1), 1, "the legacy file became a slot in this very run: %s", raw)
	require.NoError(t, os.WriteFile(history, []byte(digests.ReplaceAllString(string(raw), "${1}"+wrong+`"`)), 0o600))

	r, err := b.preflight(w)
	require.NoError(t, err)
	assert.Equal(t, wrong, r.Before.SHA256, "the slot is not read again")
	assert.Empty(t, r.Observed.History[0].Digests)
	r, err = b.activate(w)
	require.NoError(t, err)
	assert.Equal(t, activation.OutcomeUnchanged, r.Outcome, "under the lock it is")
	assert.Equal(t, r.Candidate.SHA256, r.Before.SHA256)
}

func TestChangedSlotIsRead(t *testing.T) {
	b, w, _ := upgradedBefore(t)
	slot := b.path("daemon-green")
	before, err := b.preflight(w)
	require.NoError(t, err)
	b.daemon.stop()
	info, err := os.Stat(slot)
	require.NoError(t, err)
	f, err := os.OpenFile(slot, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), info.Size()/2)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Chtimes(slot, info.ModTime(), info.ModTime()), "as rsync or touch may do")
	after, err := b.preflight(w)
	require.NoError(t, err)
	assert.NotEqual(t, before.Before.SHA256, after.Before.SHA256)
	assert.True(t, after.Changed)
}

// A change in the same tick of the file system's clock would not show.
func TestYoungFilesAreNotRecorded(t *testing.T) {
	b := legacy(t)
	_, err := b.activate(b.candidate("2.0", "ok"))
	require.NoError(t, err)
	found, err := filepath.Glob(b.path("state/*/history.jsonl"))
	require.NoError(t, err)
	raw, err := os.ReadFile(found[0])
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "digests")
}
