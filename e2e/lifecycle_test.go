// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// A host's whole life on each version of systemd: adopted, upgraded three
// times, downgraded, rolled back. Each step is foreseen by check mode, and each
// is done once (I4, I5, I6).
func TestLifecycle(t *testing.T) {
	hosts := startHosts(t, versions...)
	var daemons []daemon
	for i, h := range hosts {
		d := h.service("foo", "simple", i)
		h.install(d.path(), candidate(t, "1.0", "ok"))
		daemons = append(daemons, d.start())
	}
	foo := args{"path": "/opt/foo/foo", "unit": "foo", "health": args{"stable_for": 0.5}}
	play(t, hosts, map[string]any{module: foo.with(args{"state": "adopted"})}, "--check") // Ansible makes its folders
	files := map[string]string{}
	for _, version := range []string{"1.0", "2.0", "3.0", "4.0"} {
		files[version] = candidate(t, version, "ok")
	}
	upgradeTo := func(version string) args { return foo.with(args{"src": files[version], "version": version}) }
	steps := []struct {
		name     string
		args     args
		outcome  activation.Outcome
		slot     string
		version  string
		lastGood string
		restarts bool
	}{
		{"adopt", foo.with(args{"state": "adopted"}), activation.OutcomeAdopted, "blue", "1.0", "blue", false},
		{"first upgrade", upgradeTo("2.0"), activation.OutcomeActivated, "green", "2.0", "blue", true},
		{"second upgrade", upgradeTo("3.0"), activation.OutcomeActivated, "blue", "3.0", "green", true},
		{"third upgrade", upgradeTo("4.0"), activation.OutcomeActivated, "green", "4.0", "blue", true},
		{"downgrade", upgradeTo("1.0"), activation.OutcomeActivated, "blue", "1.0", "green", true},
		{"roll back", foo.with(args{"state": "rolled_back", "src": "not-looked-at"}), activation.OutcomeRolledBack, "green", "4.0", "green", true},
	}
	for _, step := range steps {
		ok := t.Run(step.name, func(t *testing.T) {
			pids := map[string]string{}
			for _, d := range daemons {
				pids[d.host.name] = d.show("MainPID")
			}
			results := foresee(t, hosts, step.args)
			for _, d := range daemons {
				r := results[d.host.name]
				require.False(t, r.Failed, "%s: %s", d.host.name, r.Msg)
				assert.Equal(t, step.outcome, r.Outcome)
				assert.True(t, r.After.Managed)
				assert.Equal(t, step.slot, r.After.ActiveSlot)
				assert.Equal(t, d.role(step.slot), r.After.Current)
				assert.Equal(t, d.role(step.lastGood), r.After.LastGood)
				assert.Equal(t, r.After.SHA256, r.After.Unit.RunningSHA256)
				assert.Equal(t, step.version, d.served())
				assert.Equal(t, "active", d.show("ActiveState"))
				assert.Equal(t, step.restarts, pids[d.host.name] != d.show("MainPID"), "restarted")
			}
			again(t, hosts, step.args)
		})
		require.True(t, ok, "the next step builds on this one")
	}
}

// I10: a stopped unit stays stopped; what it starts next is the candidate.
func TestStoppedStaysStopped(t *testing.T) {
	hosts := startHosts(t, "252")
	d := hosts[0].service("foo", "simple", 0)
	d.install(d.path(), candidate(t, "1.0", "ok"))
	d.exec("systemctl", "daemon-reload")
	upgrade := args{"path": d.path(), "unit": d.name, "src": candidate(t, "2.0", "ok")}
	play(t, hosts, map[string]any{module: upgrade}, "--check")

	r := foresee(t, hosts, upgrade)[d.host.name]
	require.False(t, r.Failed, r.Msg)
	assert.Equal(t, "inactive", d.show("ActiveState"))
	assert.Equal(t, "2.0", r.After.Version)
	again(t, hosts, upgrade)
	d.start()
	eventually(t, "it serves", func() bool { return d.show("MainPID") != "0" })
	assert.Equal(t, "2.0", d.served())
}

// A fresh host has a unit file and no executable yet.
func TestFreshHost(t *testing.T) {
	hosts := startHosts(t, "257")
	d := hosts[0].service("foo", "simple", 0)
	require.NoError(t, mkdir(d.host.path("/opt/foo")))
	d.exec("systemctl", "daemon-reload")
	install := args{"path": d.path(), "unit": d.name, "src": candidate(t, "1.0", "ok"), "mode": "0750"}
	play(t, hosts, map[string]any{module: install}, "--check")

	adopt := play(t, hosts, map[string]any{module: args{"path": d.path(), "unit": d.name, "state": "adopted"}})[d.host.name]
	assert.Equal(t, activation.KindLayoutConflict, adopt.Error.Kind, adopt.Msg)
	r := foresee(t, hosts, install)[d.host.name]
	require.False(t, r.Failed, r.Msg)
	assert.Equal(t, "inactive", d.show("ActiveState"), "nothing is started that did not run")
	assert.Equal(t, r.After.Current, r.After.LastGood)
	assert.Equal(t, "0750", r.After.Mode)
	again(t, hosts, install)
}

// The candidate is found as copy finds it, in a files folder beside the
// playbook, and by ad-hoc arguments, which are all strings.
func TestAdHoc(t *testing.T) {
	hosts := startHosts(t, "252")
	d := hosts[0].service("foo", "simple", 0)
	d.install(d.path(), candidate(t, "1.0", "ok"))
	d.start()
	src := candidate(t, "2.0", "ok")

	results, out := ansible(t, hosts, "ansible", "all", "-m", module, "-a",
		`path=`+d.path()+` unit=foo src=`+src+` rollback=yes health='{"stable_for": 0.5, "tcp": "`+d.tcp()+`"}'`, "--diff")
	r := results[d.host.name]
	require.False(t, r.Failed, r.Msg)
	assert.True(t, r.Changed)
	assert.Equal(t, "2.0", d.served())
	assert.Contains(t, out, "+version: 2.0")
	assert.NotContains(t, out, "decisions")
	assert.Contains(t, out, "steps: keep, last-good, current, path, install, pending, current, restart, confirm")

	_, out = ansible(t, hosts, "ansible", "all", "-m", module, "-a", "path="+d.path()+" unit=foo src="+src, "--check", "-vvv")
	assert.Contains(t, out, `"decisions": [`)
	assert.Contains(t, out, "is what is active: nothing is installed")

	results, _ = ansible(t, hosts, "ansible", "all", "-m", module+"_info", "-a", "path="+d.path()+" unit=foo")
	assert.Equal(t, "2.0", results[d.host.name].Facts.Version)
	results, _ = ansible(t, hosts, "ansible", "all", "-m", module, "-a", "path="+d.path()+" unit=foo src=none")
	assert.Equal(t, activation.KindCandidateMissing, results[d.host.name].Error.Kind)
	results, _ = ansible(t, hosts, "ansible", "all", "-m", module, "-a", "state=adopted path="+d.path()+" unti=foo")
	assert.Contains(t, results[d.host.name].Msg, "Unsupported parameters for (lastgood.activation.daemon_binary) module: unti.")
	results, _ = ansible(t, hosts, "ansible", "all", "-m", module, "-a", "path="+d.path()+" unit=foo state=rolled_back", "-e", "ansible_user=deploy")
	assert.Equal(t, activation.KindNotPermitted, results[d.host.name].Error.Kind, results[d.host.name].Msg)
	results, _ = ansible(t, hosts, "ansible", "all", "-m", module, "-a", "path="+d.path()+" unit=foo state=rolled_back health='{\"stable_for\": 0.5}'", "-e", "ansible_user=deploy", "--become")
	require.False(t, results[d.host.name].Failed, results[d.host.name].Msg)
	assert.Equal(t, "1.0", d.served())
	results, _ = ansible(t, hosts, "ansible", "all", "-m", module, "-a", "path="+d.path()+" unit=foo src="+src+" health='{\"stable_for\": 0.5}'", "-e", "ansible_user=deploy", "--become")
	require.False(t, results[d.host.name].Failed, results[d.host.name].Msg)
	assert.Equal(t, "2.0", d.served())
}

// Capabilities, owner and mode of the replaced executable are those of the
// new one, whatever the umask.
func TestAttributesSurvive(t *testing.T) {
	hosts := startHosts(t, "252")
	d := hosts[0].service("foo", "simple", 0, "User=deploy")
	d.install(d.path(), candidate(t, "1.0", "ok"))
	d.exec("chown", "root:deploy", d.path())
	d.exec("chmod", "0750", d.path())
	d.exec("setcap", "cap_net_bind_service=ep", d.path())
	d.start()
	r := play(t, hosts, map[string]any{module: args{"path": d.path(), "unit": "foo", "src": candidate(t, "2.0", "ok"), "health": args{"stable_for": 0.5}}})[d.host.name]
	require.False(t, r.Failed, r.Msg)
	assert.Equal(t, "2.0", d.served())
	assert.Equal(t, "0750 root deploy", d.exec("stat", "-Lc", "0%a %U %G", d.path()))
	assert.Contains(t, d.exec("getcap", d.role("green")), "cap_net_bind_service=ep")
	assert.Equal(t, d.role("green"), filepath.Join("/", d.exec("readlink", "-f", d.path())))
}
