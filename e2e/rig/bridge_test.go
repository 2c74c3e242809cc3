package rig

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

func TestBridgesHaveTheMemoryLimitOfTheChart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../charts/rouse/values.yaml")
	require.NoError(t, err)
	var values struct {
		Eventbridge struct {
			Resources struct {
				Limits struct{ Memory resource.Quantity }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &values))
	require.Equal(t, BridgeMemory, values.Eventbridge.Resources.Limits.Memory.Value())
}
