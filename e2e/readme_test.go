// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The README's playbook prints in check mode what the README says, and does it
// on a host as the README describes it.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	require.NoError(t, err)
	dir := t.TempDir()
	playbook := filepath.Join(dir, "upgrade.yml")
	require.NoError(t, os.WriteFile(playbook, []byte(block(t, readme, "yaml")), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "files"), 0o700))
	require.NoError(t, os.Rename(candidate(t, "2.0.0", "ok"), filepath.Join(dir, "files/foo")))

	hosts := startHosts(t, "257")
	h := hosts[0]
	h.legacy("/usr/local/bin/foo", "foo.service")

	_, printed := ansible(t, hosts, "ansible-playbook", playbook, "--check", "--diff")
	assert.Contains(t, masked(printed, h.name), masked(block(t, readme, "console"), "legacy-1"))
	results, printed := ansible(t, hosts, "ansible-playbook", playbook)
	assert.Equal(t, "activated", string(results[h.name].Outcome), printed)
	results, printed = ansible(t, hosts, "ansible-playbook", playbook)
	assert.False(t, results[h.name].Changed, printed)
}

// block is the first fenced block of a language.
func block(t *testing.T, text []byte, language string) string {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindSubmatch(text)
	require.NotNil(t, m, language)
	return string(m[1])
}

// masked hides the host's name, and digests, which differ with each build.
func masked(text, host string) string {
	text = regexp.MustCompile(`\b[0-9a-f]{12}\b`).ReplaceAllString(text, "DIGEST")
	return regexp.MustCompile(`\[`+regexp.QuoteMeta(host)+`\]`).ReplaceAllString(text, "[HOST]")
}
