package framework

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestOutsideUsesTheGatewaysAddressAndFirstListener(t *testing.T) {
	t.Parallel()
	entry := func(text string) (address, domain string, err error) {
		gateway := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &gateway.Object))
		return entryOf(gateway)
	}
	address, domain, err := entry(`
spec: {listeners: [{port: 80, hostname: "*.example.com"}, {port: 443, hostname: "*.example.org"}]}
status: {addresses: [{type: IPAddress, value: 10.0.0.1}]}`)
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:80", address)
	require.Equal(t, "example.com", domain)
	for _, text := range []string{
		`spec: {listeners: [{port: 80, hostname: "*.example.com"}]}`,
		`{spec: {listeners: [{port: 80}]}, status: {addresses: [{value: 10.0.0.1}]}}`,
	} {
		_, _, err := entry(text)
		require.ErrorContains(t, err, "it needs an address in its status", text)
	}
}

func TestDirectionChangesAndWakesOfReplicasAreCounted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replicas []int32
		want     int
		wakes    int
	}{
		"no change":                  {replicas: []int32{0}, want: 0},
		"up":                         {replicas: []int32{0, 1, 3}, want: 0, wakes: 1},
		"up and down":                {replicas: []int32{0, 1, 3, 2, 0}, want: 1, wakes: 1},
		"up, down and up: it flaps":  {replicas: []int32{0, 1, 3, 1, 3, 0}, want: 3, wakes: 1},
		"two wakes":                  {replicas: []int32{0, 1, 0, 2}, want: 2, wakes: 2},
		"down from where it started": {replicas: []int32{1, 0}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var moves []Move
			for _, n := range tc.replicas {
				moves = append(moves, Move{Replicas: n})
			}
			require.Equal(t, tc.want, DirectionChanges(moves))
			require.Equal(t, tc.wakes, Wakes(moves))
		})
	}
}

func TestPercentileReturnsAMeasuredValue(t *testing.T) {
	t.Parallel()
	values := []time.Duration{4, 1, 3, 2}
	require.Equal(t, time.Duration(2), Percentile(values, 50))
	require.Equal(t, time.Duration(4), Percentile(values, 95))
	require.Equal(t, time.Duration(1), Percentile(values, 0))
	require.Zero(t, Percentile(nil, 50))
}
