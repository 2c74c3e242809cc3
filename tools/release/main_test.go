package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/tools/release/program"
)

// clone is a repository with one commit.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"-c", "user.name=Rouse", "-c", "user.email=rouse@example.com", "commit", "--quiet", "--allow-empty", "--message", "one"},
	} {
		_, err := program.Program{Dir: dir}.Run(t.Context(), "git", args...)
		require.NoError(t, err)
	}
	return dir
}

func TestWhatWouldFailAReleaseIsSaidBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://")
	tag, err := name.NewTag(at + "/rouse:0.1.0")
	require.NoError(t, err)
	image, err := random.Image(16, 1)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, image))
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	for name, test := range map[string]struct {
		change  func(*options)
		problem string
	}{
		"no version":                      {func(o *options) { o.version = "" }, `VERSION is ""`},
		"no folder":                       {func(o *options) { o.out = "" }, "OUT is empty"},
		"a folder that is there":          {func(o *options) { o.out = o.repository }, "which is there already"},
		"no bases":                        {func(o *options) { o.bases = filepath.Join(o.repository, "none") }, "BASES: "},
		"no key":                          {func(o *options) { o.key = filepath.Join(o.repository, "none") }, "KEY: "},
		"a version that is released":      {func(o *options) { o.registry = at }, "is there already"},
		"a registry that does not answer": {func(o *options) { o.registry = strings.TrimPrefix(closed.URL, "http://") }, "ask REGISTRY for"},
		"a file that is not committed": {func(o *options) {
			require.NoError(t, os.WriteFile(filepath.Join(o.repository, "file"), nil, 0o600))
		}, "1 files are not committed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{version: "v0.1.0", out: filepath.Join(t.TempDir(), "out"), repository: clone(t)}
			o.bases = t.TempDir()
			test.change(&o)
			require.ErrorContains(t, o.make(t.Context(), io.Discard), test.problem)
			require.NoFileExists(t, filepath.Join(o.out, "SHA256SUMS"))
		})
	}
}

func TestBuildsThatDifferAreNamed(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	for dir, digest := range map[string]string{one: "aa", two: "bb"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte("00  same.tgz\n"+digest+"  images.txt\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images.txt"), []byte("example.com/rouse:0.1.0@sha256:"+digest+"\n"), 0o600))
	}
	require.NoError(t, same(one, one))
	err := same(one, two)
	require.ErrorContains(t, err, "images.txt; of the images: example.com/rouse:0.1.0@sha256:aa")
	require.NotContains(t, err.Error(), "same.tgz")
}
