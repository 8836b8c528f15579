// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// series of ansible-core are those that hack/setup provides.
func series(t *testing.T) []string {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(repository, "hack/requirements/ansible-*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, locks)
	var all []string
	for _, lock := range locks {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(lock), "ansible-"), ".txt"))
	}
	return all
}

// machines are the architectures that the collection has binaries for.
var machines = map[string]elf.Machine{
	"386":     elf.EM_386,
	"amd64":   elf.EM_X86_64,
	"arm":     elf.EM_ARM,
	"arm64":   elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64,
	"riscv64": elf.EM_RISCV,
	"s390x":   elf.EM_S390,
}

// controller is an Ansible of one series, and the folder where it has the
// collection.
type controller struct {
	bin         string
	collections string
}

// install installs the artifact into an empty folder, as users do.
func install(t *testing.T, series, artifact string) controller {
	t.Helper()
	cache := os.Getenv("LASTGOOD_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		require.NoError(t, err)
		cache = filepath.Join(base, "lastgood")
	}
	c := controller{filepath.Join(cache, "venv/ansible-"+series, "bin"), t.TempDir()}
	c.prints(t, "ansible-galaxy", "collection", "install", "--offline", artifact)
	return c
}

func (c controller) program(name string) string { return filepath.Join(c.bin, name) }

func (c controller) installed(name string) string {
	return filepath.Join(c.collections, "ansible_collections/lastgood/activation", name)
}

func (c controller) env() []string {
	return []string{"ANSIBLE_COLLECTIONS_PATH=" + c.collections, "NO_COLOR=1"}
}

// prints is what one of Ansible's commands prints. It must not warn.
func (c controller) prints(t *testing.T, program string, options ...string) string {
	t.Helper()
	cmd := exec.Command(c.program(program), options...)
	cmd.Env = append(ansibleEnv(), c.env()...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), "WARNING")
	return string(out)
}

// plays plays a playbook of the collection by its name.
func (c controller) plays(t *testing.T, d daemon, playbook string, options ...string) (result, string) {
	t.Helper()
	options = append(options, "-e", "daemon_hosts=all", "lastgood.activation."+playbook)
	all, printed := ansibleAll(t, []*host{d.host}, c.env(), c.program("ansible-playbook"), options...)
	results := all[d.host.name]
	require.NotEmpty(t, results, printed)
	return results[len(results)-1], printed
}

// The artifact installs and works with each series of ansible-core, on a host
// without Python and with nothing of the repository beside it.
func TestCollection(t *testing.T) {
	artifact, without := pack(t)
	h := startHosts(t, "252")[0]
	assert.Empty(t, h.exec("sh", "-c", "command -v python3 || true"))
	for i, name := range series(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := install(t, name, artifact)
			checkDocumentation(t, c)
			checkBinaries(t, c)
			on := &host{t: t, name: h.name, root: h.root}
			d := on.service(fmt.Sprintf("foo%d", i), "simple", i)
			d.install(d.path(), candidate(t, "1.0.0", "ok"))
			d.start()
			checkWithoutBinaries(t, c, without, d)
			playAll(t, c, d)
		})
	}
}

func checkDocumentation(t *testing.T, c controller) {
	t.Helper()
	list := strings.Fields(c.prints(t, "ansible-doc", "--list", "lastgood.activation"))
	for _, module := range []string{"lastgood.activation.daemon_binary", "lastgood.activation.daemon_binary_info"} {
		assert.Contains(t, list, module)
		assert.Contains(t, c.prints(t, "ansible-doc", module), "EXAMPLES")
	}
	assert.Contains(t, c.prints(t, "ansible-doc", "--type", "role", "lastgood.activation.daemon"), "daemon_path")
}

// checkBinaries checks that each binary is what its name says, is static, and
// runs where this machine can run it.
func checkBinaries(t *testing.T, c controller) {
	t.Helper()
	folder := c.installed("plugins/binaries")
	sums := command(t, "sh", "-c", "cd "+folder+" && sha256sum --check --strict SHA256SUMS")
	assert.Equal(t, len(machines), strings.Count(sums, ": OK"))
	for arch, machine := range machines {
		path := filepath.Join(folder, "lastgood-linux-"+arch)
		file, err := elf.Open(path)
		require.NoError(t, err)
		assert.Equal(t, machine, file.Machine, arch)
		libraries, err := file.ImportedLibraries()
		require.NoError(t, err, arch)
		assert.Empty(t, libraries, arch)
		require.NoError(t, file.Close())
		if runtime.GOARCH == "amd64" && (arch == "amd64" || arch == "386") {
			assert.Contains(t, command(t, path, "version"), "lastgood ")
		}
	}
}

// Without binaries in it the artifact takes them from a folder.
func checkWithoutBinaries(t *testing.T, full controller, artifact string, d daemon) {
	t.Helper()
	c := controller{full.bin, t.TempDir()}
	c.prints(t, "ansible-galaxy", "collection", "install", "--offline", artifact)
	vars := variables(t, args{"daemon_path": d.path(), "daemon_unit": d.name})
	r, printed := c.plays(t, d, "adopt", "--check", "-e", vars)
	assert.True(t, r.Failed, printed)
	assert.Contains(t, r.Msg, "See docs/collection.md")
	r, printed = c.plays(t, d, "adopt", "--check", "-e", vars, "-e", "lastgood_binaries="+full.installed("plugins/binaries"))
	assert.Equal(t, activation.OutcomeAdopted, r.Outcome, printed)
}

// playAll plays what the collection has, as one would in a host's life.
func playAll(t *testing.T, c controller, d daemon) {
	t.Helper()
	upgrade := variables(t, args{"daemon_path": d.path(), "daemon_unit": d.name, "daemon_src": candidate(t, "2.0.0", "ok"),
		"daemon_health": args{"stable_for": 0.5, "tcp": d.tcp()}})
	steps := []struct {
		playbook string
		options  []string
		outcome  activation.Outcome
		changed  bool
		serves   string
	}{
		{"adopt", []string{"--check"}, activation.OutcomeAdopted, true, "1.0.0"},
		{"adopt", nil, activation.OutcomeAdopted, true, "1.0.0"},
		{"upgrade", []string{"--check", "--diff"}, activation.OutcomeActivated, true, "1.0.0"},
		{"upgrade", nil, activation.OutcomeActivated, true, "2.0.0"},
		{"upgrade", nil, activation.OutcomeUnchanged, false, "2.0.0"},
		{"rollback", nil, activation.OutcomeRolledBack, true, "1.0.0"},
	}
	assert.Equal(t, "legacy; 1.0.0; active; the upgrade would change it", audit(t, c, d, upgrade))
	for _, step := range steps {
		r, printed := c.plays(t, d, step.playbook, append(step.options, "-e", upgrade)...)
		require.False(t, r.Failed, printed)
		assert.Equal(t, step.outcome, r.Outcome, printed)
		assert.Equal(t, step.changed, r.Changed, printed)
		assert.Equal(t, step.serves, d.served(), step.playbook)
	}
	assert.Equal(t, "managed; 1.0.0; active; the upgrade would change it", audit(t, c, d, upgrade))
	require.NoError(t, os.Remove(d.outside(d.role("last-good"))))
	assert.Regexp(t, `^legacy; 1\.0\.0; active; /opt/.*-last-good does not exist$`, audit(t, c, d, variables(t, args{"daemon_path": d.path(), "daemon_unit": d.name})))
}

// An upgrade that takes one host at a time stops at the first one that fails,
// and an audit tells which one that was.
func TestUpgradeStops(t *testing.T) {
	hosts := startHosts(t, "252", "252")
	for _, h := range hosts {
		h.legacy("/usr/local/bin/foo", "foo.service")
	}
	vars := variables(t, args{"daemon_path": "/usr/local/bin/foo", "daemon_unit": "foo", "daemon_src": candidate(t, "2.0.0", "crash:100ms"),
		"daemon_hosts": "all", "upgrade_serial": 1})
	results, printed := ansibleAll(t, hosts, nil, "ansible-playbook", "-e", vars, "lastgood.activation.upgrade")
	require.Len(t, results, 1, printed)
	audited, printed := ansible(t, hosts, "ansible-playbook", "-e", vars, "lastgood.activation.audit")
	for _, h := range hosts {
		r, tried := results[h.name]
		if tried {
			assert.Equal(t, activation.OutcomeFailedRolledBack, r[len(r)-1].Outcome)
			assert.Equal(t, "managed; 1.0.0; active; the upgrade would be refused: rejected", audited[h.name].Msg, printed)
		} else {
			assert.Equal(t, "legacy; 1.0.0; active; the upgrade would change it", audited[h.name].Msg, printed)
		}
	}
}

// audit is the line that the playbook prints. It changes nothing.
func audit(t *testing.T, c controller, d daemon, vars string) string {
	t.Helper()
	before := d.exec("ls", "-l", "--full-time", filepath.Dir(d.path()))
	r, printed := c.plays(t, d, "audit", "-e", vars)
	assert.Contains(t, printed, "failed=0", printed)
	assert.Equal(t, before, d.exec("ls", "-l", "--full-time", filepath.Dir(d.path())))
	return r.Msg
}

// variables writes variables to a file and returns the option's value for it.
func variables(t *testing.T, vars args) string {
	t.Helper()
	content, err := json.Marshal(vars)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "vars.json")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return "@" + file
}

// pack makes the artifact and the one without binaries, checks what is in them,
// and returns their paths.
func pack(t *testing.T) (artifact, without string) {
	t.Helper()
	artifact = filepath.Join(repository, "dist/lastgood-activation-"+collectionVersion(t)+".tar.gz")
	without = filepath.Join(t.TempDir(), filepath.Base(artifact))
	command(t, "make", "-C", repository, "collection", "BINARIES=none")
	require.NoError(t, os.Rename(artifact, without))
	command(t, "make", "-C", repository, "collection")
	some, all := list(t, without), list(t, artifact)

	info, err := os.Stat(artifact)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(20_000_000))
	binaries := []string{"plugins/binaries/SHA256SUMS"}
	for arch := range machines {
		binaries = append(binaries, "plugins/binaries/lastgood-linux-"+arch)
	}
	assert.ElementsMatch(t, all, append(binaries, some...))
	allowed := regexp.MustCompile(`^(MANIFEST\.json|FILES\.json|README\.md|CHANGELOG\.md|LICENSES/.*|docs/.*\.md|meta/.*\.yml|playbooks/.*\.yml|plugins/.*|roles/.*\.(yml|md))$`)
	for _, name := range all {
		assert.Regexp(t, allowed, name)
		assert.NotRegexp(t, `\.go$|test|__pycache__`, name)
	}
	return artifact, without
}

func collectionVersion(t *testing.T) string {
	t.Helper()
	var galaxy struct{ Version string }
	fromYAML(t, "galaxy.yml", &galaxy)
	return galaxy.Version
}

// list names the files in a packed archive.
func list(t *testing.T, artifact string) []string {
	t.Helper()
	file, err := os.Open(artifact)
	require.NoError(t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	var names []string
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		if header.Typeflag == tar.TypeReg {
			names = append(names, header.Name)
		} else {
			assert.Equal(t, byte(tar.TypeDir), header.Typeflag, header.Name)
		}
	}
}
