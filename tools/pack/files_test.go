package pack_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/tools/pack"
)

func entries(t *testing.T, file string) map[string]tar.Header {
	t.Helper()
	content, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = content.Close() }()
	found := map[string]tar.Header{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		found[header.Name] = *header
	}
}

func TestFilesBringTheirDirectories(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "node")
	require.NoError(t, os.WriteFile(source, []byte("binary"), 0o644))
	target := filepath.Join(t.TempDir(), "layer.tar")
	require.NoError(t, pack.Files(target, []pack.File{
		{Path: "/usr/local/bin/node", Source: source},
		{Path: "/usr/local/bin/nodejs", Link: "node"},
	}))
	found := entries(t, target)
	require.Len(t, found, 5)
	require.Equal(t, byte(tar.TypeDir), found["usr/local/"].Typeflag)
	require.Equal(t, int64(0o755), found["usr/local/bin/node"].Mode)
	require.Equal(t, "node", found["usr/local/bin/nodejs"].Linkname)
}

func TestTreeKeepsModesAndLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/src/app"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "usr/src/app/main.py"), []byte("print()"), 0o644))
	require.NoError(t, os.Symlink("main.py", filepath.Join(root, "usr/src/app/link")))
	target := filepath.Join(t.TempDir(), "layer.tar")
	require.NoError(t, pack.Dir(target, root))
	found := entries(t, target)
	require.Len(t, found, 5)
	require.Equal(t, int64(0o644), found["usr/src/app/main.py"].Mode)
	require.Equal(t, "main.py", found["usr/src/app/link"].Linkname)
}
