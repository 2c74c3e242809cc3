package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// copied copies the project's own chart.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "charts", "rouse"))))
	return dir
}

func chartRelease() release {
	return release{Version: "v1.2.3", Registry: "registry.example.com/functions", Time: time.Unix(1700000000, 0)}
}

func TestTheChartNamesTheReleaseAndItsImages(t *testing.T) {
	t.Parallel()
	dir := copied(t)
	digest := "sha256:" + strings.Repeat("ab", 32)
	others := imageDigests{}
	references, err := otherImages(dir)
	require.NoError(t, err)
	for _, reference := range references {
		others[reference] = digest
	}
	require.NoError(t, requireOthers(dir, others))
	require.NoError(t, pinChart(dir, chartRelease(), imageDigests{"rouse-runtime-nodejs22": digest, "rouse": digest}, others))
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(values), "  repository: registry.example.com/functions/rouse\n")
	require.Contains(t, string(values), "\n    rouse: "+digest+"\n    rouse-runtime-nodejs22: "+digest+"\n")
	metadata, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(metadata), "\nversion: 1.2.3\nappVersion: 1.2.3\n")

	pinned, err := otherImages(dir)
	require.NoError(t, err)
	require.Len(t, pinned, 2)
	for i, reference := range references {
		require.Equal(t, reference+"@"+digest, pinned[i])
	}

	err = pinChart(dir, chartRelease(), nil, nil)
	require.ErrorContains(t, err, "values.yaml has 0 lines that begin with", "twice")
}

func TestAChartIsPackedTheSameEachTime(t *testing.T) {
	t.Parallel()
	one, two := filepath.Join(t.TempDir(), "one.tgz"), filepath.Join(t.TempDir(), "two.tgz")
	first, second := copied(t), copied(t)
	require.NoError(t, os.Chtimes(filepath.Join(second, "values.yaml"), time.Unix(1, 0), time.Unix(1, 0)))
	require.NoError(t, packChart(first, one))
	require.NoError(t, packChart(second, two))
	a, err := os.ReadFile(one)
	require.NoError(t, err)
	b, err := os.ReadFile(two)
	require.NoError(t, err)
	require.Equal(t, a, b)

	packed, err := chartImage(first, one, chartRelease().Time)
	require.NoError(t, err)
	require.NoError(t, validate.Image(packed, validate.Fast))
	manifest, err := packed.Manifest()
	require.NoError(t, err)
	require.Equal(t, "application/vnd.cncf.helm.config.v1+json", string(manifest.Config.MediaType))
	require.Len(t, manifest.Layers, 1)
	require.Equal(t, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", string(manifest.Layers[0].MediaType))
	require.Equal(t, "rouse", manifest.Annotations["org.opencontainers.image.title"])
}
