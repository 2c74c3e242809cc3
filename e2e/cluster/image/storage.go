package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Storage is the storage directory of a CNCF distribution registry. Layers are added as hard links, within milliseconds
// and without disk space, where a push would copy them for each new cluster.
type Storage string

// Put adds missing images to the registry, and returns their number. The registry may run.
func (s Storage) Put(images ...Image) (int, error) {
	added := 0
	for _, image := range images {
		tag := s.path("repositories", image.Name, "_manifests", "tags", image.Tag(), "current", "link")
		if _, err := os.Stat(tag); err == nil {
			continue
		}
		if err := s.put(image, tag); err != nil {
			return added, fmt.Errorf("give the registry %s: %w", image.Name, err)
		}
		added++
	}
	return added, nil
}

// put writes the tag last, which makes the image visible.
func (s Storage) put(image Image, tag string) error {
	_, built, err := image.build()
	if err != nil {
		return err
	}
	layers := s.path("repositories", image.Name, "_layers")
	for _, layer := range image.Layers {
		if err := s.linkLayer(layer); err != nil {
			return err
		}
		if err := writeLink(filepath.Join(layers, "sha256", layer.digest.Hex, "link"), layer.digest); err != nil {
			return err
		}
	}
	config, configErr := built.RawConfigFile()
	manifest, manifestErr := built.RawManifest()
	if err := errors.Join(configErr, manifestErr); err != nil {
		return err
	}
	configDigest, err := s.write(config)
	if err != nil {
		return err
	}
	digest, err := s.write(manifest)
	if err != nil {
		return err
	}
	manifests := s.path("repositories", image.Name, "_manifests")
	return errors.Join(
		writeLink(filepath.Join(layers, "sha256", configDigest.Hex, "link"), configDigest),
		writeLink(filepath.Join(manifests, "revisions", "sha256", digest.Hex, "link"), digest),
		writeLink(filepath.Join(manifests, "tags", image.Tag(), "index", "sha256", digest.Hex, "link"), digest),
		writeLink(tag, digest),
	)
}

func (s Storage) path(names ...string) string {
	return filepath.Join(append([]string{string(s), "docker", "registry", "v2"}, names...)...)
}

func (s Storage) blob(digest v1.Hash) string {
	return s.path("blobs", digest.Algorithm, digest.Hex[:2], digest.Hex, "data")
}

func (s Storage) write(content []byte) (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, state.Write(s.blob(digest), string(content))
}

func writeLink(path string, digest v1.Hash) error { return state.Write(path, digest.String()) }

// linkLayer copies the layer when the cache is on another file system.
func (s Storage) linkLayer(layer Layer) error {
	target := s.blob(layer.digest)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	err := os.Link(layer.path, target)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return copyFile(layer.path, target)
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, source)
	return err
}
