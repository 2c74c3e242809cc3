package image

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImagesOfAnotherSetAreUnwantedUnderAllTheirNames(t *testing.T) {
	t.Parallel()
	one, two := Image{Name: "one"}, Image{Name: "two", Registry: "registry.example.com"}
	table := "REF TYPE DIGEST SIZE PLATFORMS LABELS\n" +
		one.Reference() + " application/vnd.oci.image.manifest.v1+json sha256:1 5.0 MiB linux/amd64 io.cri-containerd.image=managed\n" +
		two.Reference() + " application/vnd.oci.image.manifest.v1+json sha256:2 5.0 MiB linux/amd64 -\n" +
		"rouse.local/one:before application/vnd.oci.image.manifest.v1+json sha256:3 5.0 MiB linux/amd64 -\n" +
		"sha256:a application/vnd.oci.image.manifest.v1+json sha256:1 5.0 MiB linux/amd64 -\n" +
		"sha256:c application/vnd.oci.image.manifest.v1+json sha256:3 5.0 MiB linux/amd64 -\n"
	require.Equal(t, []string{"rouse.local/one:before", "sha256:c"}, unwanted(table, []Image{one, two}))
	require.Empty(t, unwanted("REF TYPE DIGEST\n", []Image{one}))
}
