// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	var tables map[string][]entry
	require.NoError(t, json.Unmarshal([]byte(command(t, filepath.Join(repository, "bin/lastgood"), "arguments")), &tables))
	require.Len(t, tables, 2)
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, byName(table), documented(t, "lastgood.activation."+name))
		})
	}
}

// entry is a row of the binary's table.
type entry struct {
	parameter
	Name    string
	Options []entry
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

// option is an option as ansible-doc shows it.
type option struct {
	parameter
	Elements   string
	Suboptions map[string]option
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
		}
		all[name] = p
	}
	return all
}
