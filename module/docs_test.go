// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/errors.md has a row for every kind, and for none that does not exist.
func TestEveryKindIsDocumented(t *testing.T) {
	kinds := matches(t, "../activation/errors.go", `Kind = "(\w+)"`)
	require.NotEmpty(t, kinds)
	assert.Equal(t, kinds, matches(t, "../docs/errors.md", "(?m)^\\| `(\\w+)` \\| [^|]+ \\| [^|]+ \\|$"))
}

// matches returns the first group of each match in a file, sorted.
func matches(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}
