package image

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

const (
	tarName    = "layer.tar"
	digestName = "digest"
)

// Layer is an uncompressed tar file in the cache.
type Layer struct {
	path   string
	digest v1.Hash
	size   int64
}

var _ v1.Layer = Layer{}

// Digest and DiffID are the same, since the layer is not compressed.
func (l Layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the content.
func (l Layer) DiffID() (v1.Hash, error) { return l.digest, nil }

// Compressed is the content as it is.
func (l Layer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed is the content as it is.
func (l Layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Size of the content.
func (l Layer) Size() (int64, error) { return l.size, nil }

// MediaType says that the layer is not compressed.
func (l Layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// File is the tar file.
func (l Layer) File() string { return l.path }

// Store keeps layers in the cache.
type Store struct{ Cache state.Cache }

// Layer returns the layer of this name and key, and lets write make its tar file when it is not in the cache.
func (s Store) Layer(name, key string, write func(file string) error) (Layer, error) {
	dir, _, err := s.Cache.Entry("layers", name, key, func(temporary string) error {
		if err := os.MkdirAll(temporary, 0o755); err != nil {
			return err
		}
		file := filepath.Join(temporary, tarName)
		if err := write(file); err != nil {
			return err
		}
		digest, err := state.SumFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(temporary, digestName), []byte(digest), 0o644)
	})
	if err != nil {
		return Layer{}, fmt.Errorf("make the layer %s: %w", name, err)
	}
	return open(dir)
}

func open(dir string) (Layer, error) {
	digest, err := os.ReadFile(filepath.Join(dir, digestName))
	if err != nil {
		return Layer{}, err
	}
	info, err := os.Stat(filepath.Join(dir, tarName))
	if err != nil {
		return Layer{}, err
	}
	return Layer{path: filepath.Join(dir, tarName), digest: v1.Hash{Algorithm: "sha256", Hex: string(digest)}, size: info.Size()}, nil
}
