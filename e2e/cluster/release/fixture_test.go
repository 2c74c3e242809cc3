package release

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestFixturesNameTheImageOfTheSourceServer(t *testing.T) {
	t.Parallel()
	var object struct{ Data map[string]string }
	require.NoError(t, yaml.Unmarshal([]byte(Fixtures("rouse.local/source-server:1")), &object))
	require.Equal(t, map[string]string{"source-server": "rouse.local/source-server:1"}, object.Data)
}
