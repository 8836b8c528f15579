// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// misuse is a task that is wrong, and what its author is told.
type misuse struct {
	name string
	args args
	kind activation.Kind
	msg  string // a regular expression
}

// TestMisuse holds that what is asked for in a wrong way fails with one clear
// message, and that nothing on the host changes.
func TestMisuse(t *testing.T) {
	hosts := startHosts(t, "252")
	h := hosts[0]
	d := h.service("foo", "simple", 0)
	h.install(d.path(), candidate(t, "1.0", "ok"))
	d.start()
	h.install("/opt/next", candidate(t, "2.0", "ok"))
	h.install("/root/next", candidate(t, "2.0", "ok"))
	h.write("/etc/systemd/system/foo.timer", "[Timer]\nOnBootSec=1d\n")

	here := t.TempDir() // on the controller
	next := candidate(t, "2.0", "ok")
	empty, text := filepath.Join(here, "empty"), filepath.Join(here, "README.md")
	require.NoError(t, os.WriteFile(empty, nil, 0o755))
	require.NoError(t, os.WriteFile(text, []byte("# foo\n"), 0o644))

	right := args{"path": "/opt/foo/foo", "unit": "foo", "src": next}
	with := func(more args) args { return right.with(more) }
	on := func(path string) args { return with(args{"src": path, "remote_src": true}) }
	const nothing = ` Nothing was changed\. `
	asRoot := []misuse{
		{"no path", args{"unit": "foo", "src": next}, "invalid_args", `^missing required arguments: path$`},
		{"no src", args{"path": "/opt/foo/foo"}, "invalid_args", `^state is present but any of the following are missing: src, checksum$`},
		{"unknown state", with(args{"state": "latest"}), "invalid_args", `^value of state must be one of: present, adopted, rolled_back, got: latest$`},
		{"unknown parameter", with(args{"cheksum": "x"}), "invalid_args", `^Unsupported parameters for \(lastgood.activation.daemon_binary\) module: cheksum. Supported parameters include: checksum, force, group, `},
		{"unknown in a dict", with(args{"health": args{"stabel_for": 1}}), "invalid_args", `^Unsupported parameters for .* module: health.stabel_for. Supported parameters include: command, stable_for, tcp, timeout.$`},
		{"no bool", with(args{"force": "maybe"}), "invalid_args", `^argument 'force' is of type str and we were unable to convert to bool: The value 'maybe' is not a valid boolean. Valid booleans include: `},
		{"no number", with(args{"lock_timeout": "soon"}), "invalid_args", `^argument 'lock_timeout' is of type str and we were unable to convert to float: `},
		{"no list", with(args{"version_args": args{"a": 1}}), "invalid_args", `^argument 'version_args' is of type dict and we were unable to convert to list: `},
		{"no dict", with(args{"health": "tcp"}), "invalid_args", `^argument 'health' is of type str and we were unable to convert to dict: dictionary requested, could not parse JSON or key=value$`},
		{"no number in a dict", with(args{"health": args{"stable_for": "long"}}), "invalid_args", `^argument 'stable_for' is of type str found in 'health'. and we were unable to convert to float: `},
		{"tcp without a port", with(args{"health": args{"tcp": "localhost"}}), "invalid_args", `^health.tcp must be host:port with a number as port, and 'localhost' is not; for example `},
		{"mode 755 without quotes", with(args{"mode": 755}), "invalid_args", `^mode 755 is a decimal number .*; give octal digits in quotes, as '0755'$`},
		{"mode that nobody can run", with(args{"mode": "0644"}), "invalid_args", `^mode 0644 would make the executable one that nobody can run; `},
		{"negative timeout", with(args{"lock_timeout": -5}), "invalid_args", `^lock_timeout must be from 0 to 86400 seconds, and -5 is not$`},
		{"negative time in a dict", with(args{"health": args{"timeout": -1}}), "invalid_args", `^health.timeout must be from 0.001 to 86400 seconds, and -1 is not$`},
		{"version with blanks", with(args{"version": "foo 2.0"}), "invalid_args", `^version must be one word of what the version command prints, as 2.0.0, and 'foo 2.0' is not$`},
		{"unknown owner", with(args{"owner": "nosuch"}), "invalid_args", `^owner 'nosuch' is not known on this host\.` + nothing},
		{"Windows path", with(args{"path": `C:\Program Files\foo.exe`}), "invalid_args", `^path must be an absolute path, and 'C:\\Program Files\\foo.exe' is not$`},
		{"relative path", with(args{"path": "bin/foo"}), "invalid_args", `^path must be an absolute path, and 'bin/foo' is not$`},
		{"path with ..", with(args{"path": "/opt/foo/../foo/foo"}), "invalid_args", `^path must not hold '\.\.': '/opt/foo/../foo/foo'$`},
		{"path is a folder", with(args{"path": "/opt/foo"}), "layout_conflict", `^/opt/foo, where the executable belongs, is a folder\.` + nothing + `Path must name the executable itself`},
		{"no such unit", with(args{"unit": "nosuch"}), "unit_not_found", `^there is no unit nosuch.service\.` + nothing + `Check its name`},
		{"timer", with(args{"unit": "foo.timer"}), "invalid_args", `^unit must be a service, and 'foo.timer' is not$`},
		{"template", with(args{"unit": "foo@"}), "invalid_args", `^unit 'foo@.service' is a template: name one of its instances, `},
		{"unit with blanks", with(args{"unit": "foo bar"}), "invalid_args", `^unit 'foo bar' is no name that systemd takes`},
		{"src is not there", with(args{"src": "nosuch"}), "candidate_missing", `(?s)nosuch.*` + nothing},
		{"src is a folder", with(args{"src": here}), "candidate_missing", `(?s)` + here + `.*` + nothing},
		{"src is empty", with(args{"src": empty}), "not_executable", `^the candidate /.*/empty is no Linux executable: it is empty\.` + nothing},
		{"src is a text", with(args{"src": text}), "not_executable", `^the candidate /.*/README.md is no Linux executable: it begins with "# foo.*"\.` + nothing},
		{"wrong checksum", with(args{"checksum": strings.Repeat("0", 64)}), "checksum_mismatch", `^the candidate .* has SHA-256 [0-9a-f]{64}, not 0{64}\.` + nothing},
		{"short checksum", with(args{"checksum": "abc"}), "invalid_args", `^checksum 'abc' is 3 characters long, and a SHA-256 has 64 hex digits$`},
		{"MD5", with(args{"checksum": "md5:" + strings.Repeat("0", 32)}), "invalid_args", `^checksum must be a SHA-256, and 'md5:0+' names md5$`},
		{"src is not on the host", on("/opt/nosuch"), "candidate_missing", `^can't open the candidate /opt/nosuch: no such file or directory\.` + nothing + `Check src`},
		{"src is a folder on the host", on("/opt"), "not_executable", `^the candidate /opt is a folder, not a file\.` + nothing + `Name the executable itself in src\.$`},
		{"src on the host is relative", on("next"), "invalid_args", `^src must be an absolute path, and 'next' is not`},
		{"src is the active file", on("/opt/foo/foo"), "candidate_in_place", `^the candidate /opt/foo/foo is the active file itself\.` + nothing},
	}
	asDeploy := []misuse{
		{"no root", with(args{"src": "/opt/next", "remote_src": true}), "not_permitted", `\.` + nothing + `Run as root \(become: true\)`},
		{"src that only root can read", on("/root/next"), "not_permitted", `\.` + nothing + `Run as root \(become: true\), or make the file readable\.$`},
	}
	adHoc := []misuse{ // where every value is text
		{"ad hoc, no bool", args{"path": "/opt/foo/foo", "checksum": "abc", "rollback": "perhaps"}, "invalid_args", `^argument 'rollback' is of type str and we were unable to convert to bool: The value 'perhaps' `},
		{"ad hoc, a typo", args{"path": "/opt/foo/foo", "state": "adopted", "chekcsum": "abc"}, "invalid_args", `^Unsupported parameters for \(lastgood.activation.daemon_binary\) module: chekcsum\. `},
		{"ad hoc, all of it right but the mode", args{"path": "/opt/foo/foo", "unit": "foo", "src": next, "mode": "0644", "lock_timeout": "1.5", "rollback": "no", "version_args": "[]", "health": `{"tcp":"127.0.0.1:1"}`},
			"invalid_args", `^mode 0644 would make the executable one that nobody can run; give for example '0755'$`},
	}
	withoutPlugin := []misuse{
		{"src on the controller", right, "invalid_args", `^src '.*' is on the controller, and the action plugin that sends it did not run\.` + nothing + `Put the candidate on the host and set remote_src: true, or install the whole collection `},
	}
	library := filepath.Join(t.TempDir(), "library")
	require.NoError(t, mkdir(library))
	binary, err := os.ReadFile(filepath.Join(repository, "bin/lastgood"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(library, "daemon_binary"), binary, 0o755))

	// Ansible and the action plugin make their folders.
	for _, warm := range [][]string{nil, {"-e", "ansible_user=deploy"}, {"-e", "lastgood_pipelining=false"}} {
		misused(t, h, []misuse{{"", args{"path": "/opt/foo"}, "", ""}}, module+"_info", nil, warm...)
	}
	before := h.snapshot()
	judge(t, asRoot, misused(t, h, asRoot, module, nil))
	judge(t, asDeploy, misused(t, h, asDeploy, module, nil, "-e", "ansible_user=deploy"))
	judge(t, adHoc, said(t, h, adHoc))
	judge(t, withoutPlugin, misused(t, h, withoutPlugin, "daemon_binary", []string{"ANSIBLE_LIBRARY=" + library}))
	assert.Empty(t, differences(before, h.snapshot()), "nothing was changed")
}

// misused runs one playbook with a task for each misuse.
func misused(t *testing.T, h *host, cases []misuse, module string, env []string, options ...string) []result {
	t.Helper()
	var tasks []args
	for _, c := range cases {
		tasks = append(tasks, args{"name": c.name, module: c.args, "ignore_errors": true})
	}
	content, err := json.Marshal([]args{{"hosts": "all", "gather_facts": false, "tasks": tasks}})
	require.NoError(t, err)
	playbook := filepath.Join(t.TempDir(), "playbook.yml")
	require.NoError(t, os.WriteFile(playbook, content, 0o600))
	results, out := ansibleAll(t, []*host{h}, env, "ansible-playbook", append(options, playbook)...)
	require.Len(t, results[h.name], len(cases), out)
	return results[h.name]
}

// said runs an ad-hoc command for each misuse.
func said(t *testing.T, h *host, cases []misuse) []result {
	t.Helper()
	var results []result
	for _, c := range cases {
		var words []string
		for name, value := range c.args {
			words = append(words, fmt.Sprintf("%s='%v'", name, value))
		}
		r, _ := ansible(t, []*host{h}, "ansible", "all", "-m", module, "-a", strings.Join(words, " "))
		results = append(results, r[h.name])
	}
	return results
}

func judge(t *testing.T, cases []misuse, results []result) {
	t.Helper()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := results[i]
			assert.True(t, r.Failed)
			assert.False(t, r.Changed)
			assert.Equal(t, activation.OutcomeRefused, r.Outcome)
			assert.Equal(t, c.kind, r.Error.Kind)
			assert.Regexp(t, c.msg, r.Msg)
		})
	}
}
