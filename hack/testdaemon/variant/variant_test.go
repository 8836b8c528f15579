// SPDX-License-Identifier: Apache-2.0

package variant_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/hack/testdaemon/variant"
)

func TestWrittenVariantIsRead(t *testing.T) {
	dir := t.TempDir()
	base, dst := filepath.Join(dir, "base"), filepath.Join(dir, "variant")
	require.NoError(t, os.WriteFile(base, []byte("program"), 0o755))

	want := variant.Variant{Version: "2.0.0", Behaviour: "crash:1s,ignore-term", Pad: 10000}
	require.NoError(t, variant.Write(dst, base, want))

	got, err := variant.Read(dst)
	require.NoError(t, err)
	require.Equal(t, want.Version, got.Version)
	require.Equal(t, want.Behaviour, got.Behaviour)
	info, err := os.Stat(dst)
	require.NoError(t, err)
	require.Greater(t, info.Size(), want.Pad)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
}

func TestFileWithoutTrailerIsBase(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "short": "x", "cut off": "program\n#testdaemon version=2", "mark elsewhere": "#testdaemon version=2\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "daemon")
			require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
			got, err := variant.Read(path)
			require.NoError(t, err)
			require.Equal(t, variant.Base(), got)
		})
	}
}

func TestMisspeltVariantIsRefused(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	require.NoError(t, os.WriteFile(base, []byte("program"), 0o755))
	for _, v := range []variant.Variant{
		{Version: "1", Behaviour: "crsh:1s"},
		{Version: "1", Behaviour: "crash"},
		{Version: "1", Behaviour: "ok:1"},
		{Version: "1", Behaviour: ""},
		{Version: "1 2", Behaviour: "ok"},
		{Version: "1 pad=3", Behaviour: "ok"},
	} {
		require.Error(t, variant.Write(filepath.Join(dir, "out"), base, v), "%+v", v)
	}
	require.NoFileExists(t, filepath.Join(dir, "out"))
}

func TestParse(t *testing.T) {
	v, err := variant.Parse([]string{"version=3", "behaviour=hang", "pad=2M"})
	require.NoError(t, err)
	require.Equal(t, variant.Variant{Version: "3", Behaviour: "hang", Pad: 2 << 20}, v)
	for _, field := range []string{"version", "pad=x", "pad=-1", "colour=red"} {
		_, err := variant.Parse([]string{field})
		require.Error(t, err, field)
	}
}
