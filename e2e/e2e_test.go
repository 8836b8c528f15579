// SPDX-License-Identifier: Apache-2.0

// Package e2e drives the collection as its users do: real Ansible over ssh to
// hosts with a real systemd, a daemon that listens, and candidates that
// misbehave. It needs root on Linux, for the hosts.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// versions of systemd that the tests have hosts of.
var versions = []string{"247", "252", "257"}

var (
	repository string // its root
	scratch    string // a short path, because ssh puts sockets there
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if repository, err = filepath.Abs(".."); err == nil {
		scratch, err = os.MkdirTemp("", "e2e")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a temporary folder
	if os.Getenv("LASTGOOD_RUN") == "" {
		// Hosts of this run alone: others on this machine stay.
		if err := os.Setenv("LASTGOOD_RUN", fmt.Sprintf("/run/lastgood-e2e-%d", os.Getpid())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer exec.Command(hack("testhost"), "stop", "--all").Run() //nolint:errcheck // the end
	}
	for _, build := range [][]string{{hack("collection")}, {hack("mkdaemon"), filepath.Join(scratch, "daemon")}} {
		if out, err := exec.Command(build[0], build[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
	}
	return m.Run()
}

func hack(name string) string { return filepath.Join(repository, "hack", name) }

// command returns what a command printed, and fails the test if it fails.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, errors bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errors
	require.NoError(t, cmd.Run(), "%s %v: %s", name, args, &errors)
	return strings.TrimRight(out.String(), "\n")
}

// candidate makes a variant of the test daemon and returns its path.
func candidate(t *testing.T, version, behaviour string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testdaemon-"+version)
	command(t, filepath.Join(repository, "bin/testdaemon"), "--make", path, "version="+version, "behaviour="+behaviour)
	return path
}

// host is one test host.
type host struct {
	t    *testing.T
	name string
	root string // its root directory, seen from here
}

var startLock sync.Mutex

// startHosts starts one host for each version that is named, again for one
// that is named twice. They end with the test.
func startHosts(t *testing.T, versions ...string) []*host {
	t.Helper()
	startLock.Lock()
	defer startLock.Unlock()
	var hosts []*host
	byVersion := map[string][]string{}
	for i, v := range versions {
		name := fmt.Sprintf("%s-%d-%s", strings.ToLower(strings.TrimPrefix(strings.SplitN(t.Name(), "/", 2)[0], "Test")), i, v)
		hosts = append(hosts, &host{t: t, name: name})
		byVersion[v] = append(byVersion[v], name)
	}
	for v, names := range byVersion {
		command(t, hack("testhost"), append([]string{"start", "--systemd", v}, names...)...)
		t.Cleanup(func() { command(t, hack("testhost"), append([]string{"stop"}, names...)...) })
	}
	for _, h := range hosts {
		h.root = command(t, hack("testhost"), "root", h.name)
	}
	return hosts
}

// exec runs a command as root on the host.
func (h *host) exec(args ...string) string {
	h.t.Helper()
	return command(h.t, hack("testhost"), append([]string{"exec", h.name}, args...)...)
}

func (h *host) path(path string) string { return filepath.Join(h.root, path) }

func (h *host) write(path, content string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Dir(h.path(path)), 0o755))
	require.NoError(h.t, os.WriteFile(h.path(path), []byte(content), 0o644))
}

func (h *host) install(path, from string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Dir(h.path(path)), 0o755))
	content, err := os.ReadFile(from)
	require.NoError(h.t, err)
	require.NoError(h.t, os.WriteFile(h.path(path), content, 0o755))
}

// legacy starts a unit that runs version 1.0.0 of the test daemon as a plain
// file, and listens at 127.0.0.1:8080.
func (h *host) legacy(path, unit string) {
	h.t.Helper()
	h.install(path, candidate(h.t, "1.0.0", "ok"))
	raw, err := os.ReadFile(filepath.Join(repository, "hack/testdaemon/units/simple.service"))
	require.NoError(h.t, err)
	h.write("/etc/systemd/system/"+unit, strings.ReplaceAll(string(raw), "/usr/local/bin/testdaemon", path))
	h.exec("systemctl", "enable", "--now", unit)
}

// daemon is a service on a host: the unit foo.service, which runs /opt/foo/foo
// and listens at a port.
type daemon struct {
	*host
	name string
	port int
}

const firstPort = 18000

// service writes the unit from one of hack/testdaemon/units, with lines of
// its own in [Service].
func (h *host) service(name, kind string, number int, lines ...string) daemon {
	h.t.Helper()
	d := daemon{h, name, firstPort + number}
	raw, err := os.ReadFile(filepath.Join(repository, "hack/testdaemon/units", kind+".service"))
	require.NoError(h.t, err)
	lines = append(lines, fmt.Sprintf("Environment=TESTDAEMON_LISTEN=127.0.0.1:%d", d.port))
	text := strings.NewReplacer("/usr/local/bin/testdaemon", d.path(), "/run/testdaemon.pid", "/run/"+name+".pid",
		"[Service]\n", "[Service]\n"+strings.Join(lines, "\n")+"\n").Replace(string(raw))
	h.write("/etc/systemd/system/"+name+".service", text)
	return d
}

func (d daemon) path() string               { return "/opt/" + d.name + "/" + d.name }
func (d daemon) role(suffix string) string  { return d.path() + "-" + suffix }
func (d daemon) tcp() string                { return fmt.Sprintf("127.0.0.1:%d", d.port) }
func (d daemon) outside(role string) string { return d.host.path(role) }

func (d daemon) start() daemon {
	d.t.Helper()
	d.exec("systemctl", "daemon-reload")
	d.exec("systemctl", "start", d.name)
	return d
}

func (d daemon) show(property string) string {
	d.t.Helper()
	return d.exec("systemctl", "show", "--value", "--property", property, d.name)
}

// served is the version that the daemon answers with, as soon as it does.
func (d daemon) served() string {
	d.t.Helper()
	// One line is one write; one that came after the answer would reset the connection.
	get := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d && printf 'GET /\n' >&3 && cat <&3`, d.port)
	answer := d.exec("timeout", "20", "bash", "-c", "until ( "+get+" ) 2>/dev/null; do sleep 0.05; done")
	_, version, ok := strings.Cut(answer, "\r\n\r\ntestdaemon ")
	require.True(d.t, ok, "%q", answer)
	return version
}

// result is a module's result, as Ansible gives it to a callback.
type result struct {
	Changed   bool
	Failed    bool
	Msg       string
	Outcome   activation.Outcome
	Plan      []activation.Step
	Before    activation.Facts
	After     activation.Facts
	Candidate *activation.CandidateFacts
	Rollback  *activation.RollbackReport
	Error     struct{ Kind activation.Kind }
	Timing    activation.Timing
	Results   []result // of a loop's items
	Facts     activation.Facts
	activation.Audit
}

// args are a module's arguments.
type args map[string]any

func (a args) with(more args) args {
	all := maps.Clone(a)
	maps.Copy(all, more)
	return all
}

const module = "lastgood.activation.daemon_binary"

// play runs one task on hosts and returns each host's result.
func play(t *testing.T, hosts []*host, task map[string]any, options ...string) map[string]result {
	t.Helper()
	task["ignore_errors"] = true
	playbook := filepath.Join(t.TempDir(), "playbook.yml")
	content, err := json.Marshal([]map[string]any{{"hosts": "all", "gather_facts": false, "tasks": []map[string]any{task}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(playbook, content, 0o600))
	results, _ := ansible(t, hosts, "ansible-playbook", append(options, playbook)...)
	return results
}

// ansibleEnv is an environment in which Ansible finds the collection, and
// nobody's own settings.
func ansibleEnv() []string {
	return append(os.Environ(), "ANSIBLE_HOME="+scratch,
		"ANSIBLE_CONFIG="+filepath.Join(repository, "e2e/testdata/ansible.cfg"),
		"ANSIBLE_COLLECTIONS_PATH="+filepath.Join(repository, "dist"))
}

// ansible runs one of Ansible's commands on hosts and returns each host's last
// result, and what the command printed.
func ansible(t *testing.T, hosts []*host, program string, options ...string) (map[string]result, string) {
	t.Helper()
	all, out := ansibleAll(t, hosts, nil, program, options...)
	last := map[string]result{}
	for name, results := range all {
		last[name] = results[len(results)-1]
	}
	require.Len(t, last, len(hosts), out)
	return last, out
}

// ansibleAll returns all results of each host, in their order.
func ansibleAll(t *testing.T, hosts []*host, env []string, program string, options ...string) (map[string][]result, string) {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	inventory := filepath.Join(dir, "inventory.yml")
	listed := command(t, hack("testhost"), append([]string{"inventory"}, names...)...)
	require.NoError(t, os.WriteFile(inventory, []byte(listed), 0o600))
	cmd := exec.Command(program, append([]string{"-i", inventory}, options...)...)
	cmd.Dir = dir
	cmd.Env = append(append(ansibleEnv(),
		"ANSIBLE_CALLBACK_PLUGINS="+filepath.Join(repository, "e2e/testdata/callback"), "ANSIBLE_CALLBACKS_ENABLED=results",
		"ANSIBLE_LOAD_CALLBACK_PLUGINS=1", "ANSIBLE_FORKS=8", "ANSIBLE_SSH_ARGS=-o ControlMaster=auto -o ControlPersist=5s",
		"RESULTS="+filepath.Join(dir, "results")), env...)
	out, err := cmd.CombinedOutput()
	raw, readErr := os.ReadFile(filepath.Join(dir, "results"))
	require.NoError(t, readErr, "%v\n%s", err, out)
	results := map[string][]result{}
	for line := range bytes.Lines(raw) {
		var one struct {
			Host   string
			Result result
		}
		require.NoError(t, json.Unmarshal(line, &one), "%s", line)
		results[one.Host] = append(results[one.Host], one.Result)
	}
	return results, string(out)
}

// foresee plays a task in check mode, which must change nothing on the hosts,
// and then for real, which must do what check mode has planned (I4, I5).
func foresee(t *testing.T, hosts []*host, a args) map[string]result {
	t.Helper()
	before := snapshots(hosts)
	foreseen := play(t, hosts, map[string]any{module: a}, "--check", "--diff")
	after := snapshots(hosts)
	for _, h := range hosts {
		assert.Empty(t, differences(before[h.name], after[h.name]), "I4 on %s", h.name)
	}
	done := play(t, hosts, map[string]any{module: a})
	for _, h := range hosts {
		f, d := foreseen[h.name], done[h.name]
		assert.Equal(t, f.Plan, d.Plan, "I5 on %s", h.name)
		assert.Equal(t, f.Changed, d.Changed, "%s: %s", h.name, d.Msg)
		assert.Equal(t, f.Outcome, d.Outcome, "%s: %s", h.name, d.Msg)
	}
	return done
}

// again plays a task once more, which must change nothing and restart nothing
// (I6).
func again(t *testing.T, hosts []*host, a args) {
	t.Helper()
	before := snapshots(hosts)
	results := play(t, hosts, map[string]any{module: a})
	for _, h := range hosts {
		r := results[h.name]
		assert.False(t, r.Failed, "%s: %s", h.name, r.Msg)
		assert.False(t, r.Changed, "I6 on %s: %s", h.name, r.Msg)
		assert.Equal(t, activation.OutcomeUnchanged, r.Outcome, h.name)
		assert.Empty(t, r.Plan, h.name)
		assert.Equal(t, r.Before, r.After, h.name)
	}
	after := snapshots(hosts)
	for _, h := range hosts {
		assert.Empty(t, differences(before[h.name], after[h.name]), "I6 on %s", h.name)
	}
}

// eventually waits for what nothing signals.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 20*time.Second, 50*time.Millisecond, what)
}
