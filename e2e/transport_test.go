// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// What Ansible prints at -vv about how a call reached the host.
const (
	binarySent = "sending lastgood for"
	calledSlow = "calling the module Ansible's own way: "
	sentSlow   = "sending it Ansible's own way: "
	sentFile   = "sending the candidate "
)

const rootCache = "/var/cache/lastgood"

// status asks for the facts of /usr/local/bin/foo and returns what Ansible
// printed on the way.
func status(t *testing.T, h *host, options ...string) (result, string) {
	t.Helper()
	options = append([]string{"all", "-m", module + "_info", "-a", "path=/usr/local/bin/foo", "-vv"}, options...)
	results, out := ansible(t, []*host{h}, "ansible", options...)
	return results[h.name], out
}

// cached lists the host's copies of the binary for root.
func cached(h *host) []string {
	return strings.Fields(h.exec("sh", "-c", "cd "+rootCache+" 2>/dev/null && ls -A | grep -v checked || true"))
}

// evil is a program that tells that it has run.
const evil = "#!/bin/sh\ntouch /evil-was-run\n"

// The binary is sent at the first contact and kept; from then on a call is one
// round trip. What the host keeps is not trusted by its name.
func TestBinaryIsKeptOnTheHost(t *testing.T) {
	h := startHosts(t, "252")[0]
	r, out := status(t, h)
	require.False(t, r.Failed, out)
	assert.Contains(t, out, binarySent)
	assert.NotContains(t, out, calledSlow)
	require.Len(t, cached(h), 1)
	binary := filepath.Join(rootCache, cached(h)[0])

	r, out = status(t, h, "-vvvv")
	require.False(t, r.Failed, out)
	assert.NotContains(t, out, binarySent)
	assert.Equal(t, 1, strings.Count(out, "SSH: EXEC"), "round trips: %s", out)

	broken := map[string]string{
		"truncated": "truncate -s 1000000 " + binary,
		"changed":   "printf x | dd of=" + binary + " bs=1 seek=5000 conv=notrunc",
		"removed":   "rm " + binary,
	}
	for name, breakIt := range broken {
		t.Run(name, func(t *testing.T) {
			h.exec("sh", "-c", breakIt)
			r, out := status(t, h)
			require.False(t, r.Failed, out)
			assert.Contains(t, out, binarySent)
			assert.NotContains(t, out, calledSlow)
			assert.Equal(t, []string{filepath.Base(binary)}, cached(h))
		})
	}
	t.Run("lost while the power was off", func(t *testing.T) {
		h.exec("sh", "-c", "touch -r "+binary+" /opt/time; printf x | dd of="+binary+" bs=1 seek=5000 conv=notrunc; touch -r /opt/time "+binary)
		command(t, hack("testhost"), "reboot", h.name)
		r, out := status(t, h, "-e", "ansible_control_path="+scratch+"/rebooted")
		require.False(t, r.Failed, out)
		assert.Contains(t, out, binarySent)
	})
}

// Nothing runs that another user could have put into the folder. The module is
// called all the same, in the way that does not use the folder.
func TestPlantedBinary(t *testing.T) {
	h := startHosts(t, "257")[0]
	status(t, h)
	name := cached(h)[0]
	binary := rootCache + "/" + name
	h.write("/opt/evil", evil)
	h.exec("chmod", "0755", "/opt/evil")
	clean := "rm -rf " + rootCache + "; chmod 0755 /var/cache; mkdir -m 0700 " + rootCache + "; install -m 0500 /opt/good " + binary
	h.exec("cp", binary, "/opt/good")
	plants := map[string]string{
		"folder of another user":     "cp /opt/evil " + binary + "; chown -R deploy " + rootCache,
		"good one of another user":   "chown deploy " + binary,
		"folder others may write to": "chmod 0777 " + rootCache,
		"folder a group may write":   "chmod 0770 " + rootCache,
		"file others may write to":   "chmod 0757 " + binary,
		"check by another user":      "install -m 0500 /opt/evil " + binary + "; cat /proc/sys/kernel/random/boot_id >" + binary + ".checked; chown deploy " + binary + ".checked",
		"way others may write to":    "chmod 0777 /var/cache",
		"way that is another user's": "rm -rf " + rootCache + "; cp -a /opt/good /home/deploy/" + name + "; chown deploy /home/deploy; ln -s /home/deploy " + rootCache,
		"link to evil":               "ln -sf /opt/evil " + binary,
	}
	for plant, command := range plants {
		t.Run(plant, func(t *testing.T) {
			h.exec("sh", "-c", clean)
			h.exec("sh", "-c", command)
			r, out := status(t, h)
			require.False(t, r.Failed, out)
			assert.Contains(t, out, calledSlow+"unusable "+rootOf(plant)+" is within reach of another user")
			assert.NoFileExists(t, h.path("/evil-was-run"))
		})
	}
	t.Run("evil with the right owner", func(t *testing.T) {
		h.exec("sh", "-c", clean+"; install -m 0500 /opt/evil "+binary)
		r, out := status(t, h)
		require.False(t, r.Failed, out)
		assert.Contains(t, out, binarySent)
		assert.NoFileExists(t, h.path("/evil-was-run"))
	})
}

// rootOf is the folder that the complaint names: links are resolved.
func rootOf(plant string) string {
	if plant == "way that is another user's" {
		return "/home/deploy"
	}
	return rootCache
}

// Where the folder can't be used or standard input can't reach the module, the
// plain way works.
func TestPlainWay(t *testing.T) {
	h := startHosts(t, "252")[0]
	h.write("/etc/sudoers.d/tty", "")
	tests := []struct {
		name, prepare, reason string
		options               []string
	}{
		{"noexec folder", "mount -t tmpfs -o noexec,mode=0700 none " + rootCache, "unusable " + rootCache + " is on a file system where programs can not run", nil},
		{"full disk", "mount -t tmpfs -o size=1m,mode=0700 none " + rootCache, "unusable " + rootCache + " can not be written to", nil},
		{"read-only folder", "mount -t tmpfs -o ro,mode=0700 none " + rootCache, "unusable " + rootCache + " can not be written to", nil},
		{"no sha256sum", "mv /usr/bin/sha256sum /usr/bin/sha256sum-away", "unusable there is no sha256sum", nil},
		{"su", ":", "become needs", []string{"--become", "--become-method", "su", "--become-user", "deploy"}},
		{"requiretty", "echo 'Defaults requiretty' >/etc/sudoers.d/tty", "the host does not run the script: ", []string{"-e", "ansible_user=deploy", "--become"}},
		{"connection without pipelining", ":", "the connection has no pipelining", []string{"-c", "testhost"}},
		{"switched off", ":", "pipelining is switched off", []string{"-e", "ansible_pipelining=false"}},
		{"switched off for lastgood", ":", "pipelining is switched off", []string{"-e", "lastgood_pipelining=false"}},
	}
	t.Setenv("ANSIBLE_CONNECTION_PLUGINS", filepath.Join(repository, "e2e/testdata/connection"))
	t.Setenv("TESTHOST", hack("testhost"))
	h.exec("mkdir", "-m", "0700", rootCache)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h.exec("sh", "-c", test.prepare)
			defer h.exec("sh", "-c", "umount "+rootCache+" 2>/dev/null; mv /usr/bin/sha256sum-away /usr/bin/sha256sum 2>/dev/null; : >/etc/sudoers.d/tty")
			r, out := status(t, h, test.options...)
			require.False(t, r.Failed, out)
			assert.Contains(t, out, calledSlow+test.reason)
			if test.name == "requiretty" {
				assert.Contains(t, out, "sudo: sorry, you must have a tty")
			}
			assert.NotContains(t, strings.Join(cached(h), " "), ".", "nothing is left of what did not fit")
		})
	}
	t.Run("remote files are kept", func(t *testing.T) {
		t.Setenv("ANSIBLE_KEEP_REMOTE_FILES", "1")
		r, out := status(t, h)
		require.False(t, r.Failed, out)
		assert.Contains(t, out, calledSlow+"ANSIBLE_KEEP_REMOTE_FILES")
		assert.NotEmpty(t, h.exec("sh", "-c", "ls /root/.ansible/tmp/*/AnsiballZ_*"))
	})
	t.Run("switched off and overridden", func(t *testing.T) {
		t.Setenv("ANSIBLE_PIPELINING", "false")
		r, out := status(t, h, "-e", "lastgood_pipelining=true")
		require.False(t, r.Failed, out)
		assert.NotContains(t, out, calledSlow)
	})
	t.Run("no folder where programs run", func(t *testing.T) {
		h.exec("sh", "-c", "mkdir -p /root/.ansible && for d in "+rootCache+" /root/.ansible; do mount -t tmpfs -o noexec,mode=0700 none $d; done")
		r, out := status(t, h)
		assert.True(t, r.Failed)
		assert.Contains(t, r.Msg, "programs can't run in ~/.ansible/tmp (noexec?). Nothing was changed. Set remote_tmp", out)
	})
}

// Both ways do the same, with a candidate and with the task's environment.
func TestBothWays(t *testing.T) {
	hosts := startHosts(t, "257")
	h := hosts[0]
	d := h.service("foo", "simple", 0)
	d.install(d.path(), candidate(t, "1.0", "ok"))
	d.start()
	for _, way := range []struct {
		version string
		direct  bool
	}{{"2.0", true}, {"3.0", false}} {
		upgrade := args{"path": "$WHERE/foo/foo", "unit": "foo", "src": candidate(t, way.version, "ok"), "health": args{"stable_for": 0.2}}
		task := func(a args) map[string]any {
			return map[string]any{module: a, "environment": args{"WHERE": "/opt"}, "vars": args{"lastgood_pipelining": way.direct}}
		}
		r := play(t, hosts, task(upgrade.with(args{"verify_in_check_mode": true})), "--check")[h.name]
		require.False(t, r.Failed, r.Msg)
		assert.Equal(t, way.version, r.Candidate.Version)
		r = play(t, hosts, task(upgrade))[h.name]
		require.False(t, r.Failed, r.Msg)
		assert.Equal(t, way.version, d.served())
		assert.Len(t, cached(h), 1)
	}
	assert.Empty(t, h.exec("sh", "-c", "ls -A /root/.ansible/tmp"))
}

// Several plays may meet a new host at the same time.
func TestManyAtOnce(t *testing.T) {
	h := startHosts(t, "252")[0]
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			// Ansible 2.19 ends the ssh that it started and that others share.
			r, out := status(t, h, "-e", fmt.Sprintf("ansible_control_path=%s/many-%d", scratch, i))
			assert.False(t, r.Failed, out)
			assert.NotContains(t, out, calledSlow)
		})
	}
	wait.Wait()
	assert.Len(t, cached(h), 1, h.exec("ls", "-laR", "/var/cache/lastgood"))
}

// As another user, directly and by become, each with a folder of its own.
func TestOtherUsers(t *testing.T) {
	h := startHosts(t, "252")[0]
	own := func() string {
		return h.exec("sh", "-c", "stat -c '%U %a %n' /home/deploy/.cache/lastgood/* | grep -v checked | cut -d / -f 1")
	}
	for name, options := range map[string][]string{
		"login":            {"-e", "ansible_user=deploy"},
		"become from root": {"--become", "--become-user", "deploy"},
	} {
		r, out := status(t, h, options...)
		require.False(t, r.Failed, "%s: %s", name, out)
		assert.NotContains(t, out, calledSlow, name)
		assert.Equal(t, "deploy 500 ", own(), name)
	}
	assert.Empty(t, cached(h))
	r, out := status(t, h, "-e", "ansible_user=deploy", "--become")
	require.False(t, r.Failed, out)
	assert.NotContains(t, out, calledSlow)
	assert.Len(t, cached(h), 1)
}

// On the controller itself, with a /var/cache of the test's own.
func TestLocalConnection(t *testing.T) {
	script := "mount -t tmpfs none /var/cache && ansible localhost -c local -m " + module + "_info -a path=/nonexistent/foo -vv && ls /var/cache/lastgood"
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script)
	cmd.Env = ansibleEnv()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), binarySent)
	assert.NotContains(t, string(out), calledSlow)
}

// Async is the one thing that needs Python on the host, Ansible's own wrapper.
func TestAsync(t *testing.T) {
	h := &host{t: t, name: "async-python"}
	command(t, hack("testhost"), "start", "--systemd", "252", "--python", h.name)
	t.Cleanup(func() { command(t, hack("testhost"), "stop", h.name) })
	h.root = command(t, hack("testhost"), "root", h.name)
	d := h.service("foo", "simple", 0)
	d.install(d.path(), candidate(t, "1.0", "ok"))
	d.start()
	task := map[string]any{"async": 60, "poll": 1, module: args{"path": d.path(), "unit": "foo", "src": candidate(t, "2.0", "ok"), "health": args{"stable_for": 0.2}}}
	r := play(t, []*host{h}, task)[h.name]
	require.False(t, r.Failed, r.Msg)
	assert.Equal(t, "2.0", d.served())
	task[module] = args{"path": d.path(), "unit": "foo", "state": "rolled_back", "health": args{"stable_for": 0.2}}
	r = play(t, []*host{h}, task)[h.name]
	require.False(t, r.Failed, r.Msg)
	assert.Equal(t, "1.0", d.served())
}

// A secret argument shows nowhere: not in what Ansible prints at any verbosity,
// not on a command line, not in the log.
func TestNoLog(t *testing.T) {
	hosts := startHosts(t, "252")
	h := hosts[0]
	d := h.service("foo", "simple", 0)
	d.install(d.path(), candidate(t, "1.0", "ok"))
	d.start()
	const secret = "hunter2-hunter2"
	h.write("/opt/health", "#!/bin/sh\nps -eo args | grep -v '^/bin/sh /opt/health' >>/tmp/ps\n")
	h.exec("chmod", "0755", "/opt/health")
	playbook := filepath.Join(t.TempDir(), "playbook.yml")
	require.NoError(t, os.WriteFile(playbook, []byte(`
- hosts: all
  gather_facts: false
  tasks:
    - `+module+`:
        path: `+d.path()+`
        unit: foo
        src: `+candidate(t, "2.0", "ok")+`
        health: {stable_for: 0.2, command: [/opt/health, `+secret+`]}
      no_log: true
`), 0o600))
	results, out := ansible(t, hosts, "ansible-playbook", playbook, "-vvvvv")
	require.NotContains(t, out, "fatal:")
	assert.NotContains(t, out, secret)
	assert.Empty(t, results[h.name].Plan, "Ansible hides the result")
	assert.Equal(t, "2.0", d.served())
	assert.Contains(t, h.exec("cat", "/tmp/ps"), "lastgood call")
	assert.NotContains(t, h.exec("cat", "/tmp/ps"), secret)
	assert.NotContains(t, h.exec("journalctl", "--no-pager"), secret)
}

// The host's own `uname -m` chooses the binary.
func TestArchitecture(t *testing.T) {
	h := startHosts(t, "252")[0]
	uname := func(machine string) {
		h.write("/opt/uname", "#!/bin/sh\necho Linux "+machine+"\n")
		h.exec("install", "-m", "0755", "/opt/uname", "/usr/bin/uname")
	}
	uname("mips64")
	r, out := status(t, h)
	assert.True(t, r.Failed)
	assert.Contains(t, r.Msg, "lastgood has no binary for this host: `uname -sm` says 'Linux/mips64'. Nothing was changed.", out)

	folder := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(folder, "lastgood-linux-386"), "./module")
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	sums := command(t, "sh", "-c", "cd "+folder+" && sha256sum lastgood-*")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(sums+"\n"), 0o600))
	uname("i686")
	for _, direct := range []string{"true", "false"} {
		r, out = status(t, h, "-e", "lastgood_binaries="+folder, "-e", "lastgood_pipelining="+direct)
		require.False(t, r.Failed, out)
	}
	assert.Equal(t, []string{strings.Fields(sums)[0]}, cached(h))

	uname("aarch64")
	r, out = status(t, h, "-e", "lastgood_binaries="+folder)
	assert.True(t, r.Failed)
	assert.Contains(t, r.Msg, folder+"/lastgood-linux-arm64", out)
}

// A candidate is sent only to a host that installs it, and read once in a run,
// however many hosts there are.
func TestSending(t *testing.T) {
	hosts := startHosts(t, "257", "257", "257")
	var daemons []daemon
	for _, h := range hosts {
		d := h.service("foo", "simple", 0)
		d.install(d.path(), candidate(t, "1.0", "ok"))
		daemons = append(daemons, d.start())
	}
	dir := t.TempDir()
	role := filepath.Join(dir, "roles/foo")
	require.NoError(t, os.MkdirAll(filepath.Join(role, "files"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(role, "tasks"), 0o700))
	require.NoError(t, os.Rename(candidate(t, "2.0", "ok"), filepath.Join(role, "files/foo-2.0")))
	playbook := filepath.Join(dir, "playbook.yml")
	require.NoError(t, os.WriteFile(playbook, []byte("- {hosts: all, gather_facts: false, roles: [foo]}\n"), 0o600))
	tasks := func(more string) {
		task := fmt.Sprintf("- %s: {path: /opt/foo/foo, unit: foo, src: foo-2.0, health: {stable_for: 0.2}%s}\n", module, more)
		require.NoError(t, os.WriteFile(filepath.Join(role, "tasks/main.yml"), []byte(task), 0o600))
	}
	run := func(options ...string) (map[string]result, string) {
		results, out := ansible(t, hosts, "ansible-playbook", append(options, "-vvv", playbook)...)
		for _, r := range results {
			require.False(t, r.Failed, out)
		}
		assert.Equal(t, 1, strings.Count(out, "reading the candidate "), "the candidate is read once")
		assert.NotContains(t, out, calledSlow)
		return results, out
	}
	tasks("")
	_, out := run("--check")
	assert.NotContains(t, out, sentFile)
	tasks(", verify_in_check_mode: true, version: '2.0'")
	results, out := run("--check")
	assert.Equal(t, 3, strings.Count(out, sentFile))
	for _, h := range hosts {
		assert.Equal(t, "2.0", results[h.name].Candidate.Version)
		assert.Len(t, cached(h), 1, "the candidate is not left on the host")
	}
	tasks("")
	_, out = run()
	assert.Equal(t, 3, strings.Count(out, sentFile))
	_, out = run()
	assert.NotContains(t, out, sentFile)
	for _, d := range daemons {
		assert.Equal(t, "2.0", d.served())
		assert.Len(t, cached(d.host), 1)
	}

	command(t, "sh", "-c", "cd "+dir+" && echo secret >password && ansible-vault encrypt --vault-password-file password roles/foo/files/foo-2.0")
	_, out = run("--vault-password-file", filepath.Join(dir, "password"))
	assert.NotContains(t, out, sentFile, "it has the same content")
	h := hosts[0]
	results, _ = ansible(t, hosts[:1], "ansible", "all", "-m", module, "-a", "path=/opt/foo/foo unit=foo state=rolled_back health='{\"stable_for\": 0.2}'")
	require.False(t, results[h.name].Failed, results[h.name].Msg)
	h.exec("rm", "/opt/foo/foo-green")
	results, _ = run("--vault-password-file", filepath.Join(dir, "password"))
	assert.Equal(t, activation.OutcomeActivated, results[h.name].Outcome)
	assert.Equal(t, "2.0", daemons[0].served())
}

// A large candidate goes in parts, so that the controller does not hold all of
// it for each host, and -v shows how far it is.
func TestLargeCandidate(t *testing.T) {
	hosts := startHosts(t, "252")
	large := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.Rename(candidate(t, "2.0", "ok"), large))
	require.NoError(t, os.Truncate(large, 20_000_000))
	results, out := ansible(t, hosts, "ansible", "all", "-v", "-m", module, "-a", "path=/usr/local/bin/foo mode=0755 src="+large)
	r := results[hosts[0].name]
	require.False(t, r.Failed, r.Msg)
	for _, line := range []string{"sending the candidate " + large + ", 20.0 MB", "sent 8.4 MB of 20.0 MB", "sent 16.8 MB of 20.0 MB"} {
		assert.Contains(t, out, line)
	}
	assert.Equal(t, int64(20_000_000), r.After.Size)
	assert.Len(t, cached(hosts[0]), 1)
}

// An audit in check mode tells what is wrong with a candidate that was not
// sent.
func TestNotSent(t *testing.T) {
	hosts := startHosts(t, "252")
	h := hosts[0]
	h.install("/opt/foo/foo", candidate(t, "1.0", "ok"))
	h.exec("mkdir", "-p", "/opt/small")
	h.exec("mount", "-t", "tmpfs", "-o", "size=1m,mode=0755", "none", "/opt/small")
	dir := t.TempDir()
	files := map[string]string{"script": "#!/nonexistent/interpreter\n", "arm64": "", "text": "hello\n"}
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755))
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "arm64"), "./hack/testdaemon")
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, test := range []struct {
		src, more string
		kind      activation.Kind
	}{
		{filepath.Join(dir, "arm64"), "", activation.KindWrongArchitecture},
		{filepath.Join(dir, "script"), "", activation.KindMissingInterpreter},
		{filepath.Join(dir, "text"), "", activation.KindNotExecutable},
		{candidate(t, "2.0", "ok"), " slot_dir=/opt/small", activation.KindNoSpace},
	} {
		results, out := ansible(t, hosts, "ansible", "all", "-v", "--check", "-m", module, "-a", "path=/opt/foo/foo src="+test.src+test.more)
		assert.Equal(t, test.kind, results[h.name].Error.Kind, results[h.name].Msg)
		assert.NotContains(t, out, sentFile)
	}
}
