package image_test

import (
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

func TestTagFollowsContentAndConfiguration(t *testing.T) {
	t.Parallel()
	store := image.Store{Cache: state.Cache(t.TempDir())}
	layer := func(key, text string) image.Layer {
		source := filepath.Join(t.TempDir(), "file")
		require.NoError(t, state.Write(source, text))
		made, err := store.Layer("layer", key, func(file string) error {
			return pack.Files(file, []pack.File{{Path: "/file", Source: source}})
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
