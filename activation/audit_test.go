// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// audit looks as daemon_binary_info does, and holds that a preflight reports
// the very same.
func (b *bed) audit() activation.Audit {
	b.t.Helper()
	w := b.want(activation.Adopted)
	o, err := activation.Observe(context.Background(), b.host, b.service(w), w)
	require.NoError(b.t, err)
	r, _ := b.preflight(w) // a refused one reports too
	require.NotNil(b.t, r.Observed)
	require.Equal(b.t, o.Audit(), r.Observed.Audit())
	require.Equal(b.t, o.Facts().Managed, o.Audit().LayoutState == activation.Managed)
	return o.Audit()
}

// drift is the audit's, with what differs from run to run taken out.
func (b *bed) drift() []string {
	var all []string
	for _, s := range b.audit().Drift {
		all = append(all, strings.ReplaceAll(s, b.dir+"/", ""))
	}
	return all
}

// upgraded is a managed host that was upgraded from 1.0 to 2.0.
func upgraded(t *testing.T) *bed {
	t.Helper()
	b := legacy(t)
	b.run(b.candidate("2.0", "ok"))
	return b
}

func (b *bed) relink(name, to string) {
	b.t.Helper()
	require.NoError(b.t, os.Remove(b.path(name)))
	b.link(name, b.path(to))
}

func (b *bed) remove(name string) {
	b.t.Helper()
	require.NoError(b.t, os.Remove(b.path(name)))
}

func TestAuditOfALegacyHost(t *testing.T) {
	a := legacy(t).audit()
	assert.Equal(t, activation.Legacy, a.LayoutState)
	assert.Empty(t, a.Drift)
	assert.NotNil(t, a.Drift, "a list, also where it is empty")
	assert.Empty(t, a.Slots["blue"].SHA256)
	assert.Nil(t, a.LastResult)
}

func TestAuditOfAFreshHost(t *testing.T) {
	b := newBed(t)
	b.daemon.unit.LoadState = "not-found"
	a := b.audit()
	assert.Equal(t, activation.Fresh, a.LayoutState)
	assert.Empty(t, a.Drift)
}

// The version of the slot that is not active comes from the history.
func TestAuditOfAManagedHost(t *testing.T) {
	b := legacy(t)
	b.run(b.candidate("2.0", "ok"))
	a := b.audit()
	assert.Equal(t, activation.Managed, a.LayoutState)
	assert.Empty(t, a.Drift)
	assert.Equal(t, "1.0", a.Slots["blue"].Version)
	assert.Equal(t, "2.0", a.Slots["green"].Version)
	assert.Equal(t, a.Slots["green"].SHA256, a.LastResult.SHA256)
	assert.Equal(t, activation.OutcomeActivated, a.LastResult.Outcome)
	_, err := b.activate(b.candidate("3.0", "crash:0s"))
	require.Error(t, err)
	a = b.audit()
	assert.Empty(t, a.Drift, "a rollback leaves none")
	assert.Equal(t, activation.OutcomeFailedRolledBack, a.LastResult.Outcome)
	assert.Equal(t, "3.0", a.Slots["blue"].Version)
}

// What holds the active executable by a copy runs a file without a name until
// the next restart. It is the same executable, and no drift.
func TestACopyIsNoDrift(t *testing.T) {
	b := legacy(t)
	require.NoError(t, os.Link(b.path("daemon"), b.path("second-name"))) // so it is copied
	b.run(b.want(activation.Adopted))
	assert.Empty(t, b.drift())
}

func TestDrift(t *testing.T) {
	tests := []struct {
		name string
		make func(b *bed)
		want []string // regular expressions
	}{
		{"path replaced by a file", func(b *bed) {
			b.remove("daemon")
			b.write("daemon", "9.0", "ok")
		}, []string{
			`^daemon is a file, not a link to daemon-current: somebody has replaced it$`,
			`^supervised runs 2.0 \(sha256 \w{12}\) from daemon-green, and what is active is 9.0 \(sha256 \w{12}\): it was not restarted since that changed$`,
		}},
		{"path moved", func(b *bed) { b.relink("daemon", "daemon-green") },
			[]string{`^daemon points to daemon-green, not to daemon-current$`}},
		{"path gone", func(b *bed) { b.remove("daemon") }, []string{`^daemon does not exist$`}},
		{"last-good dangles", func(b *bed) { b.relink("daemon-last-good", "gone") },
			[]string{`^daemon-last-good leads to nothing that can run: it points to gone, which does not exist$`}},
		{"last-good gone", func(b *bed) { b.remove("daemon-last-good") }, []string{`^daemon-last-good does not exist$`}},
		{"current moved to the other slot", func(b *bed) { b.relink("daemon-current", "daemon-blue") }, []string{
			`^daemon-current leads to 1.0 \(sha256 \w{12}\), and what lastgood left there on [^ ]+ [^ ]+Z was 2.0 \(sha256 \w{12}\): somebody has moved the link or changed the slot$`,
			`^supervised runs 2.0 .* from daemon-green, and what is active is 1.0 `,
		}},
		{"current moved away", func(b *bed) { b.relink("daemon-current", "candidate-2.0") },
			[]string{`^daemon-current points to candidate-2.0, which is no slot$`}},
		{"current is a file", func(b *bed) {
			b.remove("daemon-current")
			b.write("daemon-current", "2.0", "ok")
		}, []string{`^daemon-current is a file, not a link to a slot$`}},
		{"the slot was replaced", func(b *bed) {
			b.remove("daemon-green")
			b.write("daemon-green", "9.0", "ok")
		}, []string{
			`^daemon-current leads to 9.0 .*, and what lastgood left there on .* was 2.0 .*: somebody has moved the link or changed the slot$`,
			`^supervised runs 2.0 .* from daemon-green, since deleted or replaced, and what is active is 9.0 .*$`,
		}},
		{"current back to what failed", func(b *bed) {
			_, err := b.activate(b.candidate("3.0", "crash:0s"))
			require.Error(b.t, err)
			b.relink("daemon-current", "daemon-blue")
		}, []string{
			`^daemon-current leads to 3.0 .*, which failed here on .*Z: somebody has moved the link back to it$`,
			`^supervised runs 2.0 `,
		}},
		{"never restarted", func(b *bed) {
			w := b.candidate("3.0", "ok")
			w.Restart = activation.RestartNever
			b.run(w)
		}, []string{`^supervised runs 2.0 .* from daemon-green, and what is active is 3.0 .*: it was not restarted since that changed$`}},
		{"the unit starts something else", func(b *bed) { b.daemon.unit.ExecStart = [][]string{{"/usr/bin/yes"}} },
			[]string{`^unit supervised starts /usr/bin/yes, neither daemon nor daemon-current$`}},
		{"unit files changed", func(b *bed) { b.daemon.unit.NeedReload = true },
			[]string{`^the files of unit supervised have changed and systemd has not read them again$`}},
		{"no unit", func(b *bed) {
			b.daemon.stop()
			b.daemon.unit.LoadState = "not-found"
		}, []string{`^there is no unit supervised$`}},
		{"masked", func(b *bed) { b.daemon.unit.LoadState = "masked" }, []string{`^unit supervised is masked$`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := upgraded(t)
			test.make(b)
			found := b.drift()
			require.Len(t, found, len(test.want), "%q", found)
			for i, pattern := range test.want {
				assert.Regexp(t, pattern, found[i])
			}
		})
	}
}

// An interrupted activation is pending, and that is no drift of its own.
func TestAuditOfAnInterruptedActivation(t *testing.T) {
	b := legacy(t)
	w := interrupted(t, b)
	a := b.audit()
	require.NotNil(t, a.Pending)
	assert.Equal(t, w.Layout.Green, a.Pending.Slot)
}

func TestDriftNamesEveryBrokenLink(t *testing.T) {
	b := upgraded(t)
	for _, name := range []string{"daemon-blue", "daemon-green"} {
		b.remove(name)
	}
	assert.Equal(t, []string{
		"daemon-current leads to nothing that can run: it points to daemon-green, which does not exist",
		"daemon-last-good leads to nothing that can run: it points to daemon-blue, which does not exist",
	}, b.drift())
}
