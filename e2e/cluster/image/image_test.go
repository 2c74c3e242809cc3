package image_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
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
	require.NoError(t, state.Write(source, "binary"))
	target := filepath.Join(t.TempDir(), "layer.tar")
	require.NoError(t, image.Files(target, []image.File{
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
	require.NoError(t, state.Write(filepath.Join(root, "usr/src/app/main.py"), "print()"))
	require.NoError(t, os.Symlink("main.py", filepath.Join(root, "usr/src/app/link")))
	files, err := image.Tree(root)
	require.NoError(t, err)
	target := filepath.Join(t.TempDir(), "layer.tar")
	require.NoError(t, image.Files(target, files))
	found := entries(t, target)
	require.Len(t, found, 5)
	require.Equal(t, int64(0o644), found["usr/src/app/main.py"].Mode)
	require.Equal(t, "main.py", found["usr/src/app/link"].Linkname)
}

func TestTagFollowsContentAndConfiguration(t *testing.T) {
	t.Parallel()
	store := image.Store{Cache: state.Cache(t.TempDir())}
	layer := func(key, text string) image.Layer {
		source := filepath.Join(t.TempDir(), "file")
		require.NoError(t, state.Write(source, text))
		made, err := store.Layer("layer", key, func(file string) error {
			return image.Files(file, []image.File{{Path: "/file", Source: source}})
		})
		require.NoError(t, err)
		return made
	}
	one := image.Image{Name: "one", Layers: []image.Layer{layer("1", "a")}}
	same := image.Image{Name: "one", Layers: []image.Layer{layer("2", "a")}}
	other := image.Image{Name: "one", Layers: []image.Layer{layer("3", "b")}}
	run := image.Image{Name: "one", Layers: one.Layers, Config: v1.Config{Entrypoint: []string{"/file"}}}
	require.Equal(t, one.Reference(), same.Reference())
	require.NotEqual(t, one.Reference(), other.Reference())
	require.NotEqual(t, one.Reference(), run.Reference())
	require.Regexp(t, `^rouse\.local/one:[0-9a-f]{12}$`, one.Reference())
}
