// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
	"github.com/lastgood/lastgood/hack/testdaemon/variant"
)

// daemonBase is the compiled test daemon that every executable here is made of.
var daemonBase string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "lastgood-activation-")
	if err != nil {
		log.Fatal(err)
	}
	daemonBase = filepath.Join(folder, "testdaemon")
	if err := variant.Build(daemonBase); err != nil {
		log.Fatal(err)
	}
	// Any free port: nothing else on this machine may decide how a test ends.
	if err := os.Setenv("TESTDAEMON_LISTEN", "127.0.0.1:0"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder) // in the machine's own temporary folder
	os.Exit(code)
}

func writeDaemon(path, version, behaviour string) {
	if err := variant.Write(path, daemonBase, variant.Variant{Version: version, Behaviour: behaviour}); err != nil {
		log.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		log.Fatal(err)
	}
}

// bed is a host in a temporary folder: its own path, lock and state, and a
// real daemon.
type bed struct {
	t      *testing.T
	dir    string
	layout activation.Layout
	daemon *supervisor
	host   activation.Host
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir := t.TempDir()
	b := &bed{t: t, dir: dir, layout: activation.DefaultLayout(filepath.Join(dir, "daemon"), ""), host: activation.NewHost()}
	b.daemon = newSupervisor(b.layout.Path)
	t.Cleanup(b.daemon.stop)
	return b
}

// legacy is a host whose daemon is one plain file, and runs.
func legacy(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.write("daemon", "1.0", "ok")
	require.NoError(t, b.daemon.start())
	return b
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) write(name, version, behaviour string) string {
	b.t.Helper()
	writeDaemon(b.path(name), version, behaviour)
	return b.path(name)
}

func (b *bed) link(name, to string) {
	b.t.Helper()
	require.NoError(b.t, os.Symlink(to, b.path(name)))
}

func (b *bed) want(state activation.State) activation.Want {
	w := activation.NewWant(b.layout.Path, state)
	w.LockPath, w.StateDir = b.path("lock"), b.path("state")
	w.Unit = "daemon"
	w.Health = activation.Health{StableFor: 50 * time.Millisecond, Timeout: 2 * time.Second}
	return w
}

// candidate wants a new executable of this version and behaviour.
func (b *bed) candidate(version, behaviour string) activation.Want {
	b.t.Helper()
	w := b.want(activation.Present)
	c, err := activation.OpenCandidate(b.write("candidate-"+version, version, behaviour))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	w.Candidate = c
	return w
}

// service is nil for a Want without a unit.
func (b *bed) service(w activation.Want) activation.Service {
	if w.Unit == "" {
		return nil
	}
	return b.daemon
}

func (b *bed) preflight(w activation.Want) (activation.Result, error) {
	return activation.Preflight(context.Background(), b.host, b.service(w), w)
}

func (b *bed) activate(w activation.Want) (activation.Result, error) {
	return activation.Activate(context.Background(), b.host, b.service(w), w)
}

// runs is the version of the executable that the daemon's process runs.
func (b *bed) runs() string {
	b.t.Helper()
	u, err := b.daemon.Inspect(context.Background())
	require.NoError(b.t, err)
	if u.MainPID == 0 {
		return ""
	}
	v, err := variant.Read(filepath.Join("/proc", itoa(u.MainPID), "exe"))
	require.NoError(b.t, err)
	return v.Version
}

// names is the version that each name of the layout resolves to; "" for none.
func (b *bed) names() map[string]string {
	found := map[string]string{}
	for name, path := range map[string]string{
		"path": b.layout.Path, "blue": b.layout.Blue, "green": b.layout.Green,
		"current": b.layout.Current, "last-good": b.layout.LastGood,
	} {
		found[name] = ""
		if v, err := variant.Read(path); err == nil {
			found[name] = v.Version
		}
	}
	return found
}
