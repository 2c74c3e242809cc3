package main

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/tools/pack"
)

func index(t *testing.T) v1.ImageIndex {
	t.Helper()
	image, err := random.Image(64, 1)
	require.NoError(t, err)
	return pack.Index(pack.ForPlatform{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}, Image: image})
}

func TestBasesAreFoundInAFolderByTheirRuntimes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written, err := layout.Write(dir, empty.Index)
	require.NoError(t, err)
	for _, runtime := range []string{"python312", "nodejs22"} {
		require.NoError(t, written.AppendIndex(index(t), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": runtime})))
	}
	found, err := openBases(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, "nodejs22", found[0].Runtime)
	require.Equal(t, "python312", found[1].Runtime)
	_, err = found[0].Image(v1.Platform{OS: "linux", Architecture: "amd64"})
	require.NoError(t, err)
	_, err = found[0].Image(v1.Platform{OS: "linux", Architecture: "arm64"})
	require.ErrorContains(t, err, "is not there for linux/arm64")
}

func TestBasesAreFetchedByTheirDigests(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	made := index(t)
	digest, err := made.Digest()
	require.NoError(t, err)
	repository := strings.TrimPrefix(server.URL, "http://") + "/library/node"
	reference, err := name.NewDigest(repository + "@" + digest.String())
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(reference, made))

	file := filepath.Join(t.TempDir(), "bases.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"nodejs22": "%s:22@%s"}`, repository, digest), 0o600))
	found, err := openBases(t.Context(), file)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, repository, found[0].Name)
	require.Equal(t, digest, found[0].Digest)
}

func TestBaseWithoutADigestIsRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, problem string }{
		"a tag":          {`{"nodejs22": "docker.io/library/node:22"}`, `the base of nodejs22 is "docker.io/library/node:22": name it with its digest`},
		"malformed JSON": {`nodejs22: node`, "is not a map of runtimes to references"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "bases.json")
			require.NoError(t, os.WriteFile(file, []byte(test.content), 0o600))
			_, err := openBases(t.Context(), file)
			require.ErrorContains(t, err, test.problem)
		})
	}
	_, err := openBases(t.Context(), filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "BASES: ")
}
