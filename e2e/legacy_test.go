// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

func mkdir(path string) error { return os.MkdirAll(path, 0o755) }

// A legacy host comes in many shapes. Each is adopted, and what ran keeps
// running.
func TestLegacyMatrix(t *testing.T) {
	link := func(d daemon, to, name string) { require.NoError(t, os.Symlink(to, d.outside(d.role(name)))) }
	move := func(d daemon, to string) { require.NoError(t, os.Rename(d.outside(d.path()), d.outside(to))) }
	point := func(d daemon, to string) { require.NoError(t, os.Symlink(to, d.outside(d.path()))) }
	shapes := []struct {
		name string
		make func(d daemon) // from a plain file at path
	}{
		{"plain file", func(daemon) {}},
		{"current is a link to the plain file", func(d daemon) {
			link(d, d.path(), "current")
		}},
		{"current dangles beside a good last-good", func(d daemon) {
			move(d, d.role("blue"))
			link(d, d.role("blue"), "last-good")
			link(d, d.role("green"), "current")
			point(d, d.role("last-good"))
		}},
		{"only a slot and path", func(d daemon) {
			move(d, d.role("blue"))
			point(d, d.role("blue"))
		}},
		{"last-good is missing", func(d daemon) {
			move(d, d.role("green"))
			link(d, d.role("green"), "current")
			point(d, d.role("current"))
		}},
		{"relative links", func(d daemon) {
			move(d, d.role("blue"))
			link(d, "foo-blue", "current")
			link(d, "foo-blue", "last-good")
			point(d, "foo-current")
		}},
		{"path is a link to a file elsewhere", func(d daemon) {
			require.NoError(t, mkdir(d.outside("/opt/foo-1.0")))
			move(d, "/opt/foo-1.0/foo")
			point(d, "/opt/foo-1.0/foo")
		}},
	}
	var wanted []string
	for i := range shapes {
		wanted = append(wanted, versions[i%len(versions)])
	}
	hosts := startHosts(t, wanted...)
	var daemons []daemon
	pids := map[string]string{}
	for i, h := range hosts {
		d := h.service("foo", "simple", i)
		h.install(d.path(), candidate(t, "1.0", "ok"))
		shapes[i].make(d)
		d.start()
		daemons = append(daemons, d)
		pids[h.name] = d.show("MainPID")
	}
	foo := args{"path": "/opt/foo/foo", "unit": "foo", "health": args{"stable_for": 0.5}}
	adopt := foo.with(args{"state": "adopted"})
	play(t, hosts, map[string]any{module: adopt}, "--check") // Ansible makes its folders

	adopted := foresee(t, hosts, adopt)
	again(t, hosts, adopt)
	upgraded := play(t, hosts, map[string]any{module: foo.with(args{"src": candidate(t, "2.0", "ok")})})
	for i, d := range daemons {
		t.Run(shapes[i].name, func(t *testing.T) {
			r := adopted[d.host.name]
			require.False(t, r.Failed, r.Msg)
			assert.Equal(t, shapes[i].name != "relative links", r.Changed, r.Msg)
			assert.True(t, r.After.Managed)
			assert.Equal(t, r.Before.Unit, r.After.Unit, "what ran keeps running")
			assert.Equal(t, pids[d.host.name], strconv.Itoa(r.After.Unit.MainPID))
			assert.Equal(t, r.After.SHA256, r.After.Unit.RunningSHA256)

			r = upgraded[d.host.name]
			require.False(t, r.Failed, r.Msg)
			assert.Equal(t, activation.OutcomeActivated, r.Outcome)
			assert.Equal(t, "2.0", d.served())
			assert.Contains(t, d.exec(d.role("last-good"), "--version"), "1.0")
		})
	}
}
