// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// parameter is what the binary's table and the documentation have in common.
type parameter struct {
	Type     string
	Required bool
	Default  any
	Choices  []string
	Options  map[string]parameter
}

// Ansible's documentation has the parameters that the binary accepts.
func TestDocumentedParameters(t *testing.T) {
	tables := arguments(t)
	require.Len(t, tables, 2)
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, byName(table), documented(t, "lastgood.activation."+name))
		})
	}
}

// The role daemon has a variable for each parameter of the module, with the
// same type and default, and gives it to the module.
func TestRoleParameters(t *testing.T) {
	table := arguments(t)["daemon_binary"]
	require.NotEmpty(t, table)
	specs, defaults, passed := map[string]parameter{}, map[string]any{}, map[string]any{}
	for _, e := range table {
		variable, value := "daemon_"+e.Name, "daemon_"+e.Name
		specs[variable] = byName([]entry{e})[e.Name]
		if e.Default != nil {
			defaults[variable] = e.Default
		} else if !e.Required {
			value += " | default(omit)"
		}
		passed[e.Name] = "{{ " + value + " }}"
	}

	assert.Equal(t, specs, roleSpecs(t))
	var inFile map[string]any
	fromYAML(t, "roles/daemon/defaults/main.yml", &inFile)
	assert.Equal(t, defaults, inFile)
	var tasks []map[string]any
	fromYAML(t, "roles/daemon/tasks/main.yml", &tasks)
	require.Len(t, tasks, 1)
	assert.Equal(t, passed, tasks[0][module])
}

// roleSpecs are the variables that the role's argument specification names.
func roleSpecs(t *testing.T) map[string]parameter {
	t.Helper()
	var file struct {
		Specs struct {
			Main struct{ Options map[string]option }
		} `json:"argument_specs"`
	}
	fromYAML(t, "roles/daemon/meta/argument_specs.yml", &file)
	return parameters(t, file.Specs.Main.Options)
}

// fromYAML reads a file of the repository, by way of JSON, so that numbers are
// of the same type as in the binary's table.
func fromYAML(t *testing.T, name string, to any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, name))
	require.NoError(t, err)
	var content any
	require.NoError(t, yaml.Unmarshal(raw, &content))
	text, err := json.Marshal(content)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, to))
}

// entry is a row of the binary's table.
type entry struct {
	parameter
	Name    string
	Options []entry
}

// arguments is the binary's table, for each module.
func arguments(t *testing.T) map[string][]entry {
	t.Helper()
	var tables map[string][]entry
	require.NoError(t, json.Unmarshal([]byte(command(t, filepath.Join(repository, "bin/lastgood"), "arguments")), &tables))
	return tables
}

func byName(table []entry) map[string]parameter {
	all := map[string]parameter{}
	for _, e := range table {
		p := e.parameter
		if e.Options != nil {
			p.Options = byName(e.Options)
		}
		all[e.Name] = p
	}
	return all
}

// option is an option of a module's documentation, or of a role's argument
// specification, where suboptions are called options.
type option struct {
	parameter
	Elements   string
	Suboptions map[string]option
	Options    map[string]option
}

func documented(t *testing.T, module string) map[string]parameter {
	t.Helper()
	cmd := exec.Command("ansible-doc", "--type", "module", "--json", module)
	cmd.Env = ansibleEnv()
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	var docs map[string]struct {
		Doc struct{ Options map[string]option }
	}
	require.NoError(t, json.Unmarshal(out, &docs))
	return parameters(t, docs[module].Doc.Options)
}

func parameters(t *testing.T, options map[string]option) map[string]parameter {
	t.Helper()
	all := map[string]parameter{}
	for name, o := range options {
		if o.Type == "list" {
			assert.Equal(t, "str", o.Elements, name)
		}
		p := o.parameter
		if o.Suboptions != nil {
			p.Options = parameters(t, o.Suboptions)
		} else if o.Options != nil {
			p.Options = parameters(t, o.Options)
		}
		all[name] = p
	}
	return all
}
