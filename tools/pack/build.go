package pack

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Build makes an image of OCI media types from layers, lowest first. It contains no times: the same layers have the
// same digest.
func Build(platform v1.Platform, config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	// All media types are of one family: registries reject a mixture.
	oci := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return Extend(oci, platform, config, layers...)
}

// Extend adds layers to an image and replaces its configuration.
func Extend(base v1.Image, platform v1.Platform, config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	extended, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, fmt.Errorf("put layers upon an image: %w", err)
	}
	file, err := extended.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read an image's configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant, file.Config = platform.OS, platform.Architecture, platform.Variant, config
	return mutate.ConfigFile(extended, file)
}

// ForPlatform is an image with its platform.
type ForPlatform struct {
	Platform v1.Platform
	Image    v1.Image
}

// Index makes an index of the images, in their order.
func Index(images ...ForPlatform) v1.ImageIndex {
	adds := make([]mutate.IndexAddendum, len(images))
	for i, each := range images {
		adds[i] = mutate.IndexAddendum{Add: each.Image, Descriptor: v1.Descriptor{Platform: &each.Platform}}
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), adds...)
}
