// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
)

// noise is what logging in and asking changes by itself: Ansible's own folder,
// that of the module's binary, logs, and what systemd keeps of sessions.
var noise = []string{"/root/.ansible", "/home/deploy/.ansible", "/var/cache/lastgood", "/home/deploy/.cache/lastgood",
	"/var/log", "/run/log", "/run/systemd/journal", "/run/systemd/propagate", "/run/utmp", "/var/lib/systemd"}

// snapshot is all that can be seen of a host: each name with its inode, mode,
// size, times and link, the units, and the processes.
func (h *host) snapshot() string {
	h.t.Helper()
	var b strings.Builder
	for _, top := range []string{"/etc", "/home", "/opt", "/root", "/run", "/tmp", "/usr/local", "/var"} {
		err := filepath.WalkDir(h.path(top), func(path string, entry fs.DirEntry, err error) error {
			inside := strings.TrimPrefix(path, h.root)
			if slices.Contains(noise, inside) {
				return skip(entry)
			}
			if err != nil {
				return err
			}
			return describe(&b, path, inside, entry)
		})
		require.NoError(h.t, err)
	}
	b.WriteString(h.exec("systemctl", "show", "--property", "Id,ActiveState,SubState,InvocationID,MainPID,NRestarts,NeedDaemonReload,StateChangeTimestampMonotonic", "*.service"))
	for line := range strings.Lines(h.exec("ps", "-eo", "pid=,args=")) {
		if !strings.Contains(line, "sshd") && !strings.Contains(line, "ps -eo") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func describe(b *strings.Builder, path, inside string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	fmt.Fprintf(b, "%s ino %d mode %v size %d mtime %d ctime %d %s\n", inside, st.Ino, info.Mode(), info.Size(), st.Mtim.Nano(), st.Ctim.Nano(), link)
	return nil
}

// differences are the lines that only one of two snapshots has.
func differences(before, after string) []string {
	old, current := strings.Split(before, "\n"), strings.Split(after, "\n")
	var lines []string
	for _, line := range old {
		if !slices.Contains(current, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range current {
		if !slices.Contains(old, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return lines
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func snapshots(hosts []*host) map[string]string {
	all := map[string]string{}
	for _, h := range hosts {
		all[h.name] = h.snapshot()
	}
	return all
}
