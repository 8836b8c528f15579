// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// How hosts stand is told alike by daemon_binary_info and by check mode, and
// neither changes anything.
func TestAudit(t *testing.T) {
	shapes := []struct {
		name  string
		start string // what is there before: nothing, a plain file, or a host that was upgraded to 2.0
		make  func(d daemon)
		state activation.LayoutState
		drift []string // regular expressions
	}{
		{"managed", "upgraded", nil, activation.Managed, nil},
		{"legacy", "legacy", nil, activation.Legacy, nil},
		{"fresh", "fresh", nil, activation.Fresh, nil},
		{"never-restarted", "upgraded", func(d daemon) {
			d.exec("ln", "-sfn", d.role("blue"), d.role("current"))
		}, activation.Managed, []string{
			`^/opt/never-restarted/never-restarted-current leads to 1.0 .*, and what lastgood left there on .* was 2.0 .*: somebody has moved the link or changed the slot$`,
			`^never-restarted.service runs 2.0 .* from /opt/never-restarted/never-restarted-green, and what is active is 1.0 .*: it was not restarted since that changed$`,
		}},
		{"copied-over", "upgraded", func(d daemon) {
			d.exec("cp", "--remove-destination", d.role("blue"), d.path())
		}, activation.Legacy, []string{
			`^/opt/copied-over/copied-over is a file, not a link to /opt/copied-over/copied-over-current: somebody has replaced it$`,
			`^copied-over.service runs 2.0 .*, and what is active is 1.0 `,
		}},
		{"legacy-copied-over", "legacy", func(d daemon) {
			d.exec("mv", "/opt/next", d.path())
		}, activation.Legacy, []string{
			`^legacy-copied-over.service runs sha256 \w{12} from /opt/legacy-copied-over/legacy-copied-over, since deleted or replaced, and what is active is 2.0 `,
		}},
		{"pending", "upgraded", func(d daemon) {
			d.write(`/var/lib/lastgood/opt-pending-pending/pending.json`, `{"slot":"/opt/pending/pending-green","ran":true}`)
		}, activation.Managed, nil},
		{"locked", "upgraded", hold, activation.Managed, nil},
		{"drop-in", "upgraded", func(d daemon) {
			d.write("/etc/systemd/system/drop-in.service.d/x.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/yes\n")
		}, activation.Managed, []string{`^unit drop-in.service starts /usr/bin/yes, neither /opt/drop-in/drop-in nor /opt/drop-in/drop-in-current$`}},
	}
	hosts := startHosts(t, "252")
	h := hosts[0]
	good, next := candidate(t, "1.0", "ok"), candidate(t, "2.0", "ok")
	h.install("/opt/next", next)
	var all, managed []string
	var daemons []daemon
	for i, s := range shapes {
		d := h.service(s.name, "simple", i)
		daemons, all = append(daemons, d), append(all, s.name)
		if s.start == "fresh" {
			require.NoError(t, mkdir(h.path(filepath.Dir(d.path()))))
			continue
		}
		h.install(d.path(), good)
		d.start()
		if s.start == "upgraded" {
			managed = append(managed, s.name)
		}
	}
	foo := args{"path": "/opt/{{ item }}/{{ item }}", "unit": "{{ item }}"}
	upgrade := foo.with(args{"src": next, "health": args{"stable_for": 0.1}})
	r := play(t, hosts, map[string]any{module: upgrade, "loop": managed})[h.name]
	require.False(t, r.Failed, r.Msg)
	for i, s := range shapes {
		if s.make != nil {
			s.make(daemons[i])
		}
	}
	h.exec("systemctl", "daemon-reload")

	before := h.snapshot()
	told := play(t, hosts, map[string]any{module + "_info": foo, "loop": all})[h.name]
	checked := play(t, hosts, map[string]any{module: upgrade, "loop": all}, "--check")[h.name]
	assert.Empty(t, differences(before, h.snapshot()), "I4")
	for i, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			r, c := told.Results[i], checked.Results[i]
			require.False(t, r.Failed, r.Msg)
			assert.False(t, r.Changed)
			assert.Equal(t, r.Audit, c.Audit, "check mode tells the same")
			assert.Equal(t, r.Facts, c.Before, "check mode tells the same")
			assert.Equal(t, s.state, r.LayoutState)
			require.Len(t, r.Drift, len(s.drift), "%q", r.Drift)
			for j, pattern := range s.drift {
				assert.Regexp(t, pattern, r.Drift[j])
			}
			assert.Equal(t, s.name == "pending", r.Pending != nil)
			assert.Equal(t, s.name == "locked", r.LockHolder > 0)
			if s.start == "upgraded" {
				assert.Equal(t, "1.0", r.Slots["blue"].Version)
				assert.Equal(t, "2.0", r.Slots["green"].Version)
				assert.Equal(t, activation.OutcomeActivated, r.LastResult.Outcome)
			}
		})
	}
}

// hold keeps the daemon's lock in another process, for good.
func hold(d daemon) {
	d.exec("systemd-run", "--quiet", "flock", "/run/"+d.name+"-upgrade.lock", "sleep", "infinity")
	eventually(d.t, "the lock is held", func() bool {
		return d.exec("sh", "-c", "flock -n /run/"+d.name+"-upgrade.lock true || echo held") == "held"
	})
}
