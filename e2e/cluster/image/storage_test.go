package image_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

func TestRegistryServesTheContentOfItsStorage(t *testing.T) {
	t.Parallel()
	registry, err := exec.LookPath("registry")
	if err != nil {
		t.Skip("no registry in PATH: run `make test-unit`, or put there what `rouse-cluster assets` prints")
	}
	storage, cache := t.TempDir(), state.Cache(t.TempDir())
	host := serve(t, registry, storage)

	put := func(key, text string) (image.Image, int) {
		t.Helper()
		source := filepath.Join(t.TempDir(), "file")
		require.NoError(t, state.Write(source, text))
		store := image.Store{Cache: cache}
		layer, err := store.Layer("layer", key, func(file string) error {
			return pack.Files(file, []pack.File{{Path: "/file", Source: source}})
		})
		require.NoError(t, err)
		made := image.Image{Name: "runtime", Registry: host, Layers: []image.Layer{layer}, Config: v1.Config{User: "1000:1000"}}
		added, err := image.Storage(storage).Put(made)
		require.NoError(t, err)
		return made, added
	}
	one, added := put("1", "a")
	require.Equal(t, 1, added)
	_, added = put("1", "a")
	require.Zero(t, added, "it is there")
	_, added = put("2", "b")
	require.Equal(t, 1, added, "while the registry runs")

	reference, err := name.ParseReference(one.Reference(), name.Insecure)
	require.NoError(t, err)
	pulled, err := remote.Image(reference, remote.WithContext(t.Context()))
	require.NoError(t, err)
	config, err := pulled.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "1000:1000", config.Config.User)
	layers, err := pulled.Layers()
	require.NoError(t, err)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	text, err := io.ReadAll(content)
	require.NoError(t, err)
	file, err := os.ReadFile(one.Layers[0].File())
	require.NoError(t, err)
	require.Equal(t, file, text)

	// Like a build: a layer on top, in another repository, without uploading the base.
	onTop, err := mutate.AppendLayers(empty.Image, layers...)
	require.NoError(t, err)
	target, err := name.ParseReference(host+"/built:1", name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(target, onTop, remote.WithContext(t.Context())))
}

// serve runs a registry until the end of the test and returns its host:port. The registry chooses and prints the port.
func serve(t *testing.T, registry, storage string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yml")
	require.NoError(t, state.Write(config, "version: 0.1\nstorage:\n  filesystem: {rootdirectory: "+storage+"}\nhttp: {addr: \"127.0.0.1:0\"}\n"))
	ctx, cancel := context.WithCancel(t.Context())
	process := exec.CommandContext(ctx, registry, "serve", config)
	process.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	output, err := process.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	hosts, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(hosts)
		listening := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if found := listening.FindStringSubmatch(lines.Text()); found != nil {
				hosts <- found[1]
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = process.Wait()
	})
	host, open := <-hosts
	require.True(t, open, "the registry ended at its start")
	return host
}
