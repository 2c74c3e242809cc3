package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// withConfig is an image whose configuration is a chart's metadata and says nothing of layers.
type withConfig struct {
	v1.Image

	config []byte
}

// RawConfigFile implements v1.Image.
func (w withConfig) RawConfigFile() ([]byte, error) { return w.config, nil }

// ConfigName implements v1.Image.
func (w withConfig) ConfigName() (v1.Hash, error) {
	sum := sha256.Sum256(w.config)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, nil
}

// Manifest implements v1.Image.
func (w withConfig) Manifest() (*v1.Manifest, error) {
	plain, err := w.Image.Manifest()
	if err != nil {
		return nil, err
	}
	manifest := plain.DeepCopy()
	name, err := w.ConfigName()
	if err != nil {
		return nil, err
	}
	manifest.Config.MediaType, manifest.Config.Digest, manifest.Config.Size = configType, name, int64(len(w.config))
	return manifest, nil
}

// RawManifest implements v1.Image.
func (w withConfig) RawManifest() ([]byte, error) {
	manifest, err := w.Manifest()
	if err != nil {
		return nil, err
	}
	return json.Marshal(manifest)
}

// Digest implements v1.Image.
func (w withConfig) Digest() (v1.Hash, error) { return partial.Digest(w) }

// Size implements v1.Image.
func (w withConfig) Size() (int64, error) { return partial.Size(w) }

// LayerByDigest implements v1.Image.
func (w withConfig) LayerByDigest(digest v1.Hash) (v1.Layer, error) {
	if name, err := w.ConfigName(); err == nil && name == digest {
		return partial.ConfigLayer(w)
	}
	return w.Image.LayerByDigest(digest)
}
