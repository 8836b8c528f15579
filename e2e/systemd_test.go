// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Package systemd's own tests, on a host of each version.
func TestPackageSystemd(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "systemd.test")
	build := exec.Command("go", "test", "-c", "-tags", "systemdhost", "-o", binary, "./systemd")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for i, h := range startHosts(t, versions...) {
		t.Run(versions[i], func(t *testing.T) {
			t.Parallel()
			h.t = t
			h.install("/root/systemd.test", binary)
			h.exec("/root/systemd.test", "-test.run", "OnHost", "-test.failfast")
		})
	}
}
