package image

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Prefix is the registry part of names without a Registry. Nothing answers there: those images are only ever in containerd.
const Prefix = "rouse.local/"

// Image is layers and how to run them.
type Image struct {
	Name     string // without registry and tag
	Registry string // that has the image too; empty: none
	Layers   []Layer
	Config   v1.Config
}

// Repository is the name without the tag.
func (i Image) Repository() string {
	if i.Registry != "" {
		return i.Registry + "/" + i.Name
	}
	return Prefix + i.Name
}

// Tag is a hash of the content.
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

// Reference is the full name.
func (i Image) Reference() string { return i.Repository() + ":" + i.Tag() }

// Pinned is the full name with the digest, which names no other image.
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
	// One family of media types throughout: registries refuse a mixture.
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
