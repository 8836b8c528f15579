// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// What can be known before the first change is refused, by check mode and by
// the real run alike, and nothing on the host changes.
func TestRefusals(t *testing.T) {
	hosts := startHosts(t, "252")
	h := hosts[0]
	cases := []struct {
		name string
		kind activation.Kind
		make func(d daemon)
		args args
	}{
		{"no-unit", activation.KindUnitNotFound, func(d daemon) { d.exec("rm", "/etc/systemd/system/"+d.name+".service") }, nil},
		{"masked", activation.KindUnitMasked, func(d daemon) {
			d.exec("mv", "/etc/systemd/system/"+d.name+".service", "/lib/systemd/system")
			d.exec("systemctl", "mask", d.name)
		}, nil},
		{"drop-in", activation.KindUnitEntrypoint, func(d daemon) {
			d.write("/etc/systemd/system/"+d.name+".service.d/x.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/yes\n")
		}, nil},
		{"immutable", activation.KindImmutable, func(d daemon) { d.exec("chattr", "+i", d.path()) }, nil},
		{"immutable-folder", activation.KindImmutable, func(d daemon) { d.exec("chattr", "+i", "/opt/"+d.name) }, nil},
		{"noexec", activation.KindNoExec, func(d daemon) { mount(d, "/opt/slots-noexec", "noexec") }, args{"slot_dir": "/opt/slots-noexec"}},
		{"read-only", activation.KindReadOnly, func(d daemon) { mount(d, "/opt/slots-ro", "ro") }, args{"slot_dir": "/opt/slots-ro"}},
		{"no-space", activation.KindNoSpace, func(d daemon) { mount(d, "/opt/slots-full", "size=1m") }, args{"slot_dir": "/opt/slots-full"}},
		{"no-inodes", activation.KindNoSpace, func(d daemon) { mount(d, "/opt/slots-inodes", "nr_inodes=2") }, args{"slot_dir": "/opt/slots-inodes"}},
		{"folder", activation.KindLayoutConflict, func(d daemon) { d.exec("mkdir", d.role("blue")) }, nil},
		{"fifo", activation.KindLayoutConflict, func(d daemon) { d.exec("mkfifo", d.role("current")) }, nil},
		{"alias", activation.KindLayoutAlias, nil, args{"layout": args{"green": "/opt/alias/alias-blue"}}},
		{"unsafe", activation.KindUnsafePath, func(d daemon) { d.exec("chmod", "0777", "/opt/"+d.name) }, nil},
		{"locked", activation.KindLockBusy, hold, nil},
		{"signal", activation.KindSignalPresent, func(d daemon) { d.write("/etc/foo-signal", `{"operationName":"op-1"}`) }, args{"signal_path": "/etc/foo-signal"}},
		{"wrong-checksum", activation.KindChecksumMismatch, nil, args{"checksum": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}},
		{"wrong-version", activation.KindVersionMismatch, nil, args{"version": "2.1", "verify_in_check_mode": true}},
	}
	good, next := candidate(t, "1.0", "ok"), candidate(t, "2.0", "ok")
	var items []args
	for i, c := range cases {
		d := h.service(c.name, "simple", i)
		h.install(d.path(), good)
		items = append(items, args{"name": c.name, "more": args{"slot_dir": nil, "layout": nil, "signal_path": nil, "checksum": nil, "version": nil, "verify_in_check_mode": nil}.with(c.args)})
	}
	for i, c := range cases {
		d := daemon{h, c.name, firstPort + i}
		d.start()
		if c.make != nil {
			c.make(d)
		}
	}
	h.exec("systemctl", "daemon-reload")
	upgrade := args{"path": "/opt/{{ item.name }}/{{ item.name }}", "unit": "{{ item.name }}", "src": next}
	for name := range items[0]["more"].(args) {
		upgrade[name] = "{{ item.more." + name + " or omit }}"
	}
	task := map[string]any{"loop": items, "loop_control": args{"label": "{{ item.name }}"}, module: upgrade}
	play(t, hosts, map[string]any{module + "_info": args{"path": "/opt/foo"}}) // Ansible makes its folders
	before := h.snapshot()
	foreseen := play(t, hosts, task, "--check")
	require.Empty(t, differences(before, h.snapshot()), "I4")
	done := play(t, hosts, task)
	for _, line := range differences(before, h.snapshot()) {
		assert.Regexp(t, "^[+-] /run(/[a-z-]+-upgrade.lock)? ", line, "a lock's file stays")
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []result{foreseen[h.name].Results[i], done[h.name].Results[i]} {
				assert.Equal(t, c.kind, r.Error.Kind, r.Msg)
				assert.Equal(t, activation.OutcomeRefused, r.Outcome, r.Msg)
				assert.False(t, r.Changed)
				assert.Contains(t, r.Msg, "Nothing was changed")
			}
		})
	}
}

func mount(d daemon, folder, options string) {
	d.t.Helper()
	d.exec("mkdir", "-p", folder)
	d.exec("mount", "-t", "tmpfs", "-o", options+",mode=0755", "none", folder)
}
