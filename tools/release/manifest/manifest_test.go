package manifest_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rouse-run/rouse/tools/release/chart"
	"github.com/rouse-run/rouse/tools/release/manifest"
	"github.com/rouse-run/rouse/tools/release/plan"
)

// written are the file of a release, and the objects in it.
func written(t *testing.T) (text string, objects []map[string]any) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "charts", "rouse"))))
	release := plan.Release{Version: "v1.2.3", Registry: "registry.example.com/functions"}
	digest := "sha256:" + strings.Repeat("ab", 32)
	require.NoError(t, chart.Pin(dir, release, chart.Digests{"rouse": digest, "rouse-runtime-nodejs22": digest}, nil))
	file := filepath.Join(t.TempDir(), plan.Manifest)
	require.NoError(t, manifest.Write(dir, file, release))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return string(content), objects
		}
		require.NoError(t, err)
		objects = append(objects, object)
	}
}

func TestOneFileInstallsAllAndIsTheSameForAll(t *testing.T) {
	t.Parallel()
	text, objects := written(t)
	kinds := map[string]int{}
	for _, object := range objects {
		kind, _ := object["kind"].(string)
		require.NotEmpty(t, kind)
		kinds[kind]++
	}
	require.Equal(t, "Namespace", objects[0]["kind"])
	require.Zero(t, kinds["Secret"])
	require.Equal(t, 1, kinds["Job"], "the one that makes credentials, and no hook")
	require.NotContains(t, text, "helm.sh/hook")
	require.NotContains(t, text, "managed-by: Helm")
	require.Equal(t, 2, kinds["CustomResourceDefinition"])
	require.GreaterOrEqual(t, kinds["Deployment"], 4)

	again, _ := written(t)
	require.Equal(t, text, again)
}

func TestImagesAreNamedByTheirDigestsAndRuntimesWithoutOneAreNotOffered(t *testing.T) {
	t.Parallel()
	text, _ := written(t)
	digest := "@sha256:" + strings.Repeat("ab", 32)
	require.Contains(t, text, "image: registry.example.com/functions/rouse:1.2.3"+digest+"\n")
	require.Contains(t, text, "--runtime-image=nodejs22=registry.example.com/functions/rouse-runtime-nodejs22:1.2.3"+digest)
	require.NotContains(t, text, "--runtime-image=nodejs24=")
}
