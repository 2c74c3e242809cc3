package image

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Prefix is the registry in names of images without a Registry. No such registry exists: these images are only in
// containerd.
const Prefix = "rouse.local/"

// Image consists of layers and a configuration.
type Image struct {
	Name     string // without registry and tag
	Registry string // that stores the image too; empty: none
	Layers   []Layer
	Config   v1.Config
}

// Repository returns the name without the tag.
func (i Image) Repository() string {
	if i.Registry != "" {
		return i.Registry + "/" + i.Name
	}
	return Prefix + i.Name
}

// Tag returns a hash of the content.
func (i Image) Tag() string {
	parts := make([]string, 0, len(i.Layers)+1)
	for _, layer := range i.Layers {
		parts = append(parts, layer.digest.Hex)
	}
	config, err := json.Marshal(i.Config)
	if err != nil {
		panic(fmt.Sprintf("an image's configuration is plain data: %v", err))
	}
	return state.Key(append(parts, string(config))...)
}

// Reference returns the full name.
func (i Image) Reference() string { return i.Repository() + ":" + i.Tag() }

// Pinned returns the full name with the digest.
func (i Image) Pinned() (string, error) {
	_, built, err := i.build()
	if err != nil {
		return "", err
	}
	digest, err := built.Digest()
	return i.Repository() + "@" + digest.String(), err
}

func (i Image) build() (name.Reference, v1.Image, error) {
	reference, err := name.NewTag(i.Reference())
	if err != nil {
		return nil, nil, err
	}
	layers := make([]v1.Layer, len(i.Layers))
	for n, layer := range i.Layers {
		layers[n] = layer
	}
	// All media types are of one family: registries reject a mixture.
	oci := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	built, err := mutate.AppendLayers(oci, layers...)
	if err != nil {
		return nil, nil, err
	}
	file, err := built.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", "amd64", i.Config
	built, err = mutate.ConfigFile(built, file)
	return reference, built, err
}

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

// Digest equals DiffID, since the layer is not compressed.
func (l Layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID returns the digest of the content.
func (l Layer) DiffID() (v1.Hash, error) { return l.digest, nil }

// Compressed returns the uncompressed content.
func (l Layer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed returns the content.
func (l Layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Size returns the size of the content.
func (l Layer) Size() (int64, error) { return l.size, nil }

// MediaType returns the media type of uncompressed layers.
func (l Layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// File returns the path of the tar file.
func (l Layer) File() string { return l.path }

// Store caches layers.
type Store struct{ Cache state.Cache }

// Layer returns the layer of this name and key, and calls write to make its tar file when it is not in the cache.
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

// Debian makes a layer of a suite's essential packages and others. Its purpose distinguishes it from others of the
// suite; the log is written into a directory.
func (s Store) Debian(ctx context.Context, logs, purpose, suite, packages string, options ...string) (Layer, error) {
	args := []string{
		"--variant=essential", "--include=" + packages, "--format=tar",
		// A mirror that lags behind must not prevent a start.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
	}
	args = append(append(args, options...), suite)
	name := "debian-" + suite + "-" + purpose
	return s.Layer(name, state.Key(args...), func(file string) error {
		work, remove, err := s.Cache.Temporary(name)
		if err != nil {
			return err
		}
		defer remove()
		bootstrap := command.Command{
			Name: "mmdebstrap", Args: append(args, file), Log: filepath.Join(logs, name+".log"),
			Env: []string{"SOURCE_DATE_EPOCH=0", "TMPDIR=" + work},
		}
		_, err = bootstrap.Run(ctx)
		return err
	})
}
