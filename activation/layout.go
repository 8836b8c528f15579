// SPDX-License-Identifier: Apache-2.0

package activation

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// Layout names the five paths of one managed executable. All are absolute and
// clean. A role's folder is the folder of its path.
type Layout struct {
	Path     string // what people and units know
	Blue     string // slot
	Green    string // slot
	Current  string // symlink to the active slot
	LastGood string // symlink to the slot that last ran healthily
}

// DefaultLayout returns the layout for the executable at path, with the slots
// and links in slotDir, or beside path when slotDir is empty.
func DefaultLayout(path, slotDir string) Layout {
	if slotDir == "" {
		slotDir = filepath.Dir(path)
	}
	stem := filepath.Join(slotDir, filepath.Base(path))
	return Layout{
		Path:     path,
		Blue:     stem + "-blue",
		Green:    stem + "-green",
		Current:  stem + "-current",
		LastGood: stem + "-last-good",
	}
}

// DefaultLockPath is the lock that other upgraders of path take too.
func DefaultLockPath(path string) string {
	return filepath.Join("/run", filepath.Base(path)+"-upgrade.lock")
}

// maxEscaped leaves room for a suffix below the 255 bytes of a file name.
const maxEscaped = 200

// stateFolder is the name of path's folder below StateDir: the path escaped
// as systemd-escape --path does it, or its digest where that is too long.
func stateFolder(path string) string {
	escaped := escapePath(path)
	if len(escaped) > maxEscaped {
		sum := sha256.Sum256([]byte(path))
		return hex.EncodeToString(sum[:])
	}
	return escaped
}

func escapePath(path string) string {
	const hexDigits = "0123456789abcdef"
	var b strings.Builder
	for i, c := range []byte(strings.Trim(path, "/")) {
		switch {
		case c == '/':
			b.WriteByte('-')
		case isAlphanumeric(rune(c)), c == ':', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

func isAlphanumeric(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
