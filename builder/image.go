package builder

import (
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// withLayer adds the layer to the base, whose configuration stays as it is: the runtime decides how it is run.
// The layer's media type is of the base's family, because not every containerd takes a mixture.
func withLayer(base v1.Image, added layer) (v1.Image, error) {
	family, err := base.MediaType()
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the base: %w", err)
	}
	added.mediaType = types.DockerLayer
	if family == types.OCIManifestSchema1 {
		added.mediaType = types.OCILayer
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: added, MediaType: added.mediaType,
		History: v1.History{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: "rouse builder"},
	})
	if err != nil {
		return nil, fmt.Errorf("add the layer to the base: %w", err)
	}
	return image, nil
}
