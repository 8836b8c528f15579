// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// The examples of the modules' documentation, one after the other, do what they
// say on a host as they have it.
func TestExamples(t *testing.T) {
	hosts := startHosts(t, "257")
	hosts[0].legacy("/usr/local/bin/foo", "foo.service")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "files"), 0o700))
	require.NoError(t, os.Rename(candidate(t, "2.0.0", "ok"), filepath.Join(dir, "files/foo-2.0.0")))
	for _, module := range []string{"daemon_binary", "daemon_binary_info"} {
		t.Run(module, func(t *testing.T) {
			tasks := examples(t, "lastgood.activation."+module)
			playbook := filepath.Join(dir, module+".yml")
			content := "- hosts: all\n  gather_facts: false\n  tasks:\n    " + strings.ReplaceAll(tasks, "\n", "\n    ")
			require.NoError(t, os.WriteFile(playbook, []byte(content), 0o600))
			_, printed := ansible(t, hosts, "ansible-playbook", playbook)
			assert.Contains(t, printed, "unreachable=0    failed=0", printed)
			for line := range strings.Lines(tasks) {
				if name, ok := strings.CutPrefix(line, "- name: "); ok {
					assert.Contains(t, printed, "TASK ["+strings.TrimSpace(name)+"]")
				}
			}
		})
	}
}

// examples are the tasks that a module's documentation shows.
func examples(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.Command("ansible-doc", "--json", module)
	cmd.Env = ansibleEnv()
	out, err := cmd.Output()
	require.NoError(t, err)
	var docs map[string]struct{ Examples string }
	require.NoError(t, json.Unmarshal(out, &docs))
	require.NotEmpty(t, docs[module].Examples)
	return docs[module].Examples
}

// The two ready files with variables fit the agents' layouts, and a host whose
// agent is being upgraded by its own upgrader is left alone.
func TestReadyVariables(t *testing.T) {
	agents := []struct{ name, path, unit, slots, signal string }{
		{"unbounded-agent", "/usr/local/bin/unbounded-agent", "unbounded-agent-daemon.service",
			"/usr/local/bin/unbounded-agent-", "/etc/unbounded/agent/agent-upgrade-signal"},
		{"aks-flex-node", "/usr/local/bin/aks-flex-node", "aks-flex-node-agent.service",
			"/usr/local/lib/aks-flex-node/aks-flex-node-", "/etc/aks-flex-node/agent-upgrade-signal.json"},
	}
	hosts := startHosts(t, "247", "252")
	for i, agent := range agents {
		t.Run(agent.name, func(t *testing.T) {
			h := hosts[i]
			h.legacy(agent.path, agent.unit)
			upgrade := []string{"-e", "@" + filepath.Join(repository, "dist/ansible_collections/lastgood/activation/playbooks/vars", agent.name+".yml"),
				"-e", "daemon_src=" + candidate(t, "2.0.0", "ok"), "-e", "daemon_hosts=all", "lastgood.activation.upgrade"}

			h.write(agent.signal, `{"operationName": "upgrade-7"}`)
			results, printed := ansible(t, hosts[i:i+1], "ansible-playbook", upgrade...)
			assert.Equal(t, activation.KindSignalPresent, results[h.name].Error.Kind, printed)
			require.NoError(t, os.Remove(h.path(agent.signal)))

			results, printed = ansible(t, hosts[i:i+1], "ansible-playbook", upgrade...)
			r := results[h.name]
			require.Equal(t, activation.OutcomeActivated, r.Outcome, printed)
			assert.Equal(t, agent.slots+"green", r.After.Current)
			assert.Equal(t, agent.slots+"blue", r.After.LastGood)
			assert.Equal(t, agent.slots+"current", h.exec("readlink", agent.path))
			assert.Equal(t, "2.0.0", r.After.Version)
		})
	}
}
