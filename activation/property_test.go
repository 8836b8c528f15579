// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lastgood/lastgood/activation"
	"github.com/lastgood/lastgood/hack/testdaemon/variant"
)

// Whatever stands at the five names: a preflight changes nothing (I4), the
// same state gives the same plan (I5), an activation that succeeds did what
// was planned and has nothing left to do (I6), and one that is refused has
// changed nothing.
func TestAnyLayout(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "layout")
		require.NoError(rt, err)
		defer func() { assert.NoError(rt, os.RemoveAll(dir)) }()
		b := &bed{t: t, dir: dir, layout: activation.DefaultLayout(filepath.Join(dir, "daemon"), ""), host: activation.NewHost()}
		for _, name := range layoutNames {
			b.draw(rt, name)
		}
		want := b.drawWant(rt)

		before := snapshot(t, dir)
		foreseen, refusal := b.preflight(want)
		again, _ := b.preflight(want)
		require.Equal(rt, before, snapshot(t, dir), "I4")
		require.Equal(rt, plan(t, foreseen), plan(t, again), "I5: the same state gave two plans")

		usable := b.usable()
		result, err := b.activate(want)
		if refusal != nil {
			require.Error(rt, err)
			require.Equal(rt, kindOf(t, refusal), kindOf(t, err), "I5")
			require.Equal(rt, stripLock(before), stripLock(snapshot(t, dir)), "a refusal changed something")
			return
		}
		require.NoError(rt, err)
		require.Equal(rt, plan(t, foreseen), plan(t, result), "I5")
		require.Equal(rt, foreseen.After, result.After, "predicted facts")
		require.True(rt, result.After.Managed)
		o, err := activation.Observe(context.Background(), b.host, nil, want)
		require.NoError(rt, err)
		require.Equal(rt, activation.Managed, o.Audit().LayoutState)
		require.Empty(rt, o.Audit().Drift, "what an activation leaves is no drift")
		for _, name := range []string{"daemon", "daemon-current", "daemon-last-good"} {
			_, err := variant.Read(filepath.Join(dir, name))
			require.NoError(rt, err, "I1, I2: %s resolves to nothing", name)
		}
		if want.State == activation.Adopted && usable != "" {
			require.Equal(rt, usable, version(filepath.Join(dir, "daemon")), "adoption changed what is active")
		}
		after := snapshot(t, dir)
		second, err := b.activate(want)
		require.NoError(rt, err)
		require.Empty(rt, second.Plan, "I6")
		require.Equal(rt, after, snapshot(t, dir), "I6")
	})
}

var layoutNames = []string{"daemon", "daemon-blue", "daemon-green", "daemon-current", "daemon-last-good"}

// draw puts something at a name.
func (b *bed) draw(rt *rapid.T, name string) {
	path := b.path(name)
	switch rapid.SampledFrom([]string{"missing", "file", "file", "absolute", "relative", "dangling", "folder", "empty", "unexecutable"}).Draw(rt, name) {
	case "file":
		writeDaemon(path, rapid.SampledFrom([]string{"1.0", "2.0", "3.0"}).Draw(rt, name+" version"), "ok")
	case "absolute":
		require.NoError(rt, os.Symlink(b.path(rapid.SampledFrom(layoutNames).Draw(rt, name+" to")), path))
	case "relative":
		require.NoError(rt, os.Symlink(rapid.SampledFrom(layoutNames).Draw(rt, name+" to"), path))
	case "dangling":
		require.NoError(rt, os.Symlink(b.path("nowhere"), path))
	case "folder":
		require.NoError(rt, os.Mkdir(path, 0o755))
	case "empty":
		require.NoError(rt, os.WriteFile(path, nil, 0o755))
	case "unexecutable":
		writeDaemon(path, "0.5", "ok")
		require.NoError(rt, os.Chmod(path, 0o644))
	}
}

func (b *bed) drawWant(rt *rapid.T) activation.Want {
	w := b.want(rapid.SampledFrom([]activation.State{activation.Present, activation.Adopted, activation.RolledBack}).Draw(rt, "state"))
	w.Unit, w.VersionArgs = "", nil
	if w.State != activation.Present {
		return w
	}
	c, err := activation.OpenCandidate(b.write("candidate", rapid.SampledFrom([]string{"1.0", "2.0", "4.0"}).Draw(rt, "candidate"), "ok"))
	require.NoError(rt, err)
	rt.Cleanup(func() { c.Close() })
	w.Candidate = c
	return w
}

// usable is the version that path leads to now, if it can be run.
func (b *bed) usable() string {
	info, err := os.Stat(b.layout.Path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || info.Size() == 0 {
		return ""
	}
	return version(b.layout.Path)
}

func version(path string) string {
	v, err := variant.Read(path)
	if err != nil {
		return ""
	}
	return v.Version
}
