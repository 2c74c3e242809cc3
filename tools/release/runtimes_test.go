package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/tools/pack"
)

// newRuntime makes a tree with one runtime, whose layer contains its platform and the output of its interpreter.
func newRuntime(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module example.com/rouse\n\ngo 1.26\n",
		"cmd/rouse/main.go":     "package main\n\nfunc main() { print(\"it runs\") }\n",
		"runtimes/own/layer.sh": "#!/bin/sh\nset -eu\nmkdir -p \"$1/app\"\n\"$2\" 2>\"$1/app/said\"\necho \"$TARGETARCH\" >\"$1/app/for\"\n",
		"runtimes/own/image.json": `{"runtime": "own", "interpreter": ["none/here", "usr/bin/own"], "entrypoint": ["own", "/app"],
			"workdir": "/app", "user": "1000:1000", "env": {"OWN": "yes"}, "port": 8080}`,
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o700))
	}
	return dir
}

// newBase makes a base with an interpreter that is built for each platform, or always for one.
func newBase(t *testing.T, source, always string) runtimeBase {
	t.Helper()
	var images []pack.ForPlatform
	for _, platform := range serverPlatforms() {
		built := platform
		if always != "" {
			built.Architecture = always
		}
		out := t.TempDir()
		require.NoError(t, compiler{Source: source}.Command(t.Context(), built, out))
		file := filepath.Join(out, "layer.tar")
		require.NoError(t, pack.Files(file, []pack.File{
			{Path: "/usr/bin/own-1.0", Source: filepath.Join(out, "rouse")}, {Path: "/usr/bin/own", Link: "own-1.0"},
		}))
		layer, err := tarball.LayerFromFile(file)
		require.NoError(t, err)
		image, err := pack.Build(platform, v1.Config{Env: []string{"PATH=/usr/bin"}, Cmd: []string{"sh"}}, layer)
		require.NoError(t, err)
		images = append(images, pack.ForPlatform{Platform: platform, Image: image})
	}
	return runtimeBase{Runtime: "own10", Name: "base", Index: pack.Index(images...)}
}

func newRuntimeMaker(t *testing.T, source string) runtimeMaker {
	t.Helper()
	return runtimeMaker{
		Source: source, Work: t.TempDir(), Native: v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, Labels: map[string]string{"title": "own"},
	}
}

func contentOf(t *testing.T, image v1.Image, name string) string {
	t.Helper()
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	for archive := tar.NewReader(files); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			require.Fail(t, "there is no "+name)
		}
		require.NoError(t, err)
		if entry.Name == name {
			text, err := io.ReadAll(archive)
			require.NoError(t, err)
			return string(text)
		}
	}
}

func TestLayersOfAllPlatformsAreMadeByTheNativeInterpreter(t *testing.T) {
	t.Parallel()
	source := newRuntime(t)
	index, err := newRuntimeMaker(t, source).Make(t.Context(), newBase(t, source, ""), serverPlatforms())
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	for _, each := range manifest.Manifests {
		image, err := index.Image(each.Digest)
		require.NoError(t, err)
		require.Equal(t, each.Platform.Architecture+"\n", contentOf(t, image, "app/for"))
		require.Equal(t, "it runs", contentOf(t, image, "app/said"))
		file, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, each.Platform.Architecture, file.Architecture)
		require.Equal(t, []string{"own", "/app"}, file.Config.Entrypoint)
		require.Empty(t, file.Config.Cmd, "that of the base is no argument of ours")
		require.Equal(t, []string{"PATH=/usr/bin", "OWN=yes"}, file.Config.Env)
		require.Equal(t, "1000:1000", file.Config.User)
		require.Equal(t, "own", file.Config.Labels["title"])
	}
}

func TestBaseForAnotherMachineThanDeclaredIsRejected(t *testing.T) {
	t.Parallel()
	source := newRuntime(t)
	_, err := newRuntimeMaker(t, source).Make(t.Context(), newBase(t, source, runtime.GOARCH), serverPlatforms())
	require.ErrorContains(t, err, "usr/bin/own of the base is for linux/"+runtime.GOARCH+" and not for")
}

func TestMissingRuntimeIsReported(t *testing.T) {
	t.Parallel()
	source := newRuntime(t)
	other := newBase(t, source, "")
	other.Runtime = "ruby33"
	_, err := newRuntimeMaker(t, source).Make(t.Context(), other, serverPlatforms())
	require.ErrorContains(t, err, `BASES: there is no runtime "ruby33"`)
}
