// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// Candidates that are not healthy, each in its way. Each ends rolled back, and
// the version that is rolled back to serves (I7).
func TestMisbehaviour(t *testing.T) {
	cases := []struct {
		name      string
		unit      string
		behaviour string
		words     string // in the message
		probe     bool   // by TCP
		good      string // behaviour of the version that works
	}{
		{name: "crash-at-once", unit: "simple", behaviour: "crash:0s", words: "exit code 1"},
		{name: "crash-early", unit: "simple", behaviour: "crash:700ms", words: "exit code 1"},
		{name: "crash-late", unit: "simple", behaviour: "crash:1400ms", words: "exit code 1"},
		{name: "exit-zero", unit: "simple", behaviour: "exit0:500ms", words: "it ended"},
		{name: "never-listens", unit: "simple", behaviour: "hang", probe: true, words: "connection refused"},
		{name: "becomes-another", unit: "simple", behaviour: "reexec:/usr/bin/yes@300ms", words: "/usr/bin/yes"},
		{name: "never-ready", unit: "notify", behaviour: "hang", words: "activating"},
		{name: "never-stops", unit: "notify", behaviour: "hang,ignore-term", words: "activating"},
		{name: "ready-and-deaf", unit: "notify", behaviour: "deaf", probe: true, words: "connection refused"},
		{name: "main-pid-changes", unit: "notify", behaviour: "flap:500ms", words: "did not stay the same"},
		{name: "crash-loop", unit: "restart", behaviour: "crash:300ms", words: "restarted automatically"},
		{name: "start-limit", unit: "startlimit", behaviour: "crash:0s", words: "exit code 1"},
		{name: "forks", unit: "forking", behaviour: "fork,crash:500ms", words: "exit code 1", good: "fork"},
	}
	hosts := startHosts(t, versions...)
	var items []args
	for i, c := range cases {
		good := candidate(t, "1.0", "ok")
		if c.good != "" {
			good = candidate(t, "1.0", c.good)
		}
		for _, h := range hosts {
			d := h.service(c.name, c.unit, i, "TimeoutStopSec=1s")
			h.install(d.path(), good)
		}
		item := args{"name": c.name, "src": candidate(t, "2.0", c.behaviour), "tcp": nil}
		if c.probe {
			item["tcp"] = daemon{port: firstPort + i}.tcp()
		}
		items = append(items, item)
	}
	for _, h := range hosts {
		for i, c := range cases {
			daemon{h, c.name, firstPort + i}.start()
		}
	}
	upgrade := map[string]any{"loop": items, "loop_control": args{"label": "{{ item.name }}"}, module: args{
		"path": "/opt/{{ item.name }}/{{ item.name }}", "unit": "{{ item.name }}", "src": "{{ item.src }}",
		"health": args{"stable_for": 1.5, "timeout": 3, "tcp": "{{ item.tcp or omit }}"},
	}}
	first := play(t, hosts, upgrade)
	second := play(t, hosts, upgrade)
	for _, h := range hosts {
		require.Len(t, first[h.name].Results, len(cases))
		for i, c := range cases {
			t.Run(c.name+" "+h.name, func(t *testing.T) {
				d := daemon{h, c.name, firstPort + i}
				r := first[h.name].Results[i]
				assert.True(t, r.Failed)
				assert.Equal(t, activation.OutcomeFailedRolledBack, r.Outcome, r.Msg)
				assert.Contains(t, r.Msg, c.words)
				require.NotNil(t, r.Rollback)
				assert.True(t, r.Rollback.Succeeded, r.Rollback.Error)
				assert.Equal(t, r.Before.SHA256, r.After.SHA256)
				assert.Equal(t, r.Before.SHA256, r.After.Unit.RunningSHA256)
				assert.Equal(t, d.role("blue"), r.After.LastGood)
				assert.Equal(t, "active", d.show("ActiveState"))
				assert.Equal(t, "1.0", d.served())

				r = second[h.name].Results[i]
				assert.Equal(t, activation.KindRejected, r.Error.Kind, "it is remembered: %s", r.Msg)
				assert.False(t, r.Changed)
			})
		}
	}
}
