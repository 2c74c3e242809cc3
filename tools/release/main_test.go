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
)

// clone makes a repository with one commit, with a chart that contains a third-party image.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	chart := filepath.Join(dir, "charts", "rouse")
	require.NoError(t, os.MkdirAll(chart, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(chart, "values.yaml"), []byte("nats:\n  image: {repository: example.com/nats, tag: \"2\"}\n"), 0o600))
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{"-c", "user.name=Rouse", "-c", "user.email=rouse@example.com", "commit", "--quiet", "--message", "one"},
	} {
		_, err := program{Dir: dir}.Run(t.Context(), "git", args...)
		require.NoError(t, err)
	}
	return dir
}

func TestEarlyChecksReportEveryLaterFailure(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://")
	tag, err := name.NewTag(at + "/rouse:0.1.0")
	require.NoError(t, err)
	image, err := random.Image(16, 1)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, image))
	digest := "sha256:" + strings.Repeat("ab", 32)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	for name, test := range map[string]struct {
		change  func(*options)
		problem string
	}{
		"no version":                       {func(o *options) { o.version = "" }, `VERSION is ""`},
		"no folder":                        {func(o *options) { o.out = "" }, "OUT is empty"},
		"an existing folder":               {func(o *options) { o.out = o.repository }, "which is there already"},
		"no bases":                         {func(o *options) { o.bases = filepath.Join(o.repository, "none") }, "BASES: "},
		"no key":                           {func(o *options) { o.key = filepath.Join(o.repository, "none") }, "KEY: "},
		"a released version":               {func(o *options) { o.registry = at }, "is there already"},
		"a registry that does not respond": {func(o *options) { o.registry = strings.TrimPrefix(closed.URL, "http://") }, "ask REGISTRY for"},
		"a third-party image without a digest in a pushed release": {
			func(o *options) { o.registry = at + "/other" }, "IMAGES has no digest of example.com/nats:2, so that any account that may move the tag",
		},
		"no file of their digests": {func(o *options) { o.images = filepath.Join(o.repository, "none") }, "IMAGES: "},
		"a malformed digest":       {digests(t, `{"example.com/nats:2": "latest"}`), `has "latest" for example.com/nats:2: name a digest`},
		"a digest of an unknown image": {
			digests(t, `{"example.com/nats:2": "`+digest+`", "example.com/nats:1": "`+digest+`"}`), "a digest of example.com/nats:1, which the chart does not name",
		},
		"an uncommitted file": {func(o *options) {
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

// digests writes a file of digests.
func digests(t *testing.T, text string) func(*options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "images.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return func(o *options) { o.images = file }
}

func TestThirdPartyImagesAreListedWithTheirTags(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"--list-images", "--repository", "../.."}, &out))
	require.Regexp(t, `^docker\.io/library/registry:\S+\ndocker\.io/library/nats:\S+\n$`, out.String())
}

func TestDifferingBuildsAreReported(t *testing.T) {
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
