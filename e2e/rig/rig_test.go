package rig

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

func TestBridgesAndGatewaysHaveTheMemoryLimitOfTheChart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../charts/rouse/values.yaml")
	require.NoError(t, err)
	type component struct {
		Resources struct {
			Limits struct{ Memory resource.Quantity }
		}
	}
	var values struct{ Eventbridge, Gateway component }
	require.NoError(t, yaml.Unmarshal(text, &values))
	require.Equal(t, BridgeMemory, values.Eventbridge.Resources.Limits.Memory.Value())
	require.Equal(t, BridgeMemory, values.Gateway.Resources.Limits.Memory.Value())
}

// Without control groups, or with another version, no file that looks like one may be written.
func TestPlainDirectoryIsNotAControlGroup(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, err := newCgroup(root, 1<<30)
	require.ErrorContains(t, err, "memory.peak")
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = newCgroup(root+"/none", 1<<30)
	require.ErrorIs(t, err, os.ErrNotExist)
}
