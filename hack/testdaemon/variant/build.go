// SPDX-License-Identifier: Apache-2.0

package variant

import (
	"fmt"
	"os"
	"os/exec"
)

// Build compiles the test daemon to dst, to be the base of variants. It works
// in any package of this module.
func Build(dst string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
		"-o", dst, "github.com/lastgood/lastgood/hack/testdaemon")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the test daemon: %w\n%s", err, out)
	}
	return nil
}
