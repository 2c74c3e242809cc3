package release

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/image"
)

func TestFixturesNameTheImageOfTheSourceServer(t *testing.T) {
	t.Parallel()
	sources := image.Image{Name: "source-server"}
	var object struct{ Data map[string]string }
	require.NoError(t, yaml.Unmarshal([]byte(Fixtures(sources)), &object))
	require.Equal(t, map[string]string{"source-server": sources.Reference()}, object.Data)
}
