package activator

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/internal/kube"
)

func TestAGatewayIsLostAfterTwoMissesAndBackWithItsFirstAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		misses  map[string]int
		present []string
		answers map[string]bool
		want    map[string]int
	}{
		"it answers":                    {present: []string{"a"}, answers: map[string]bool{"a": true}, want: map[string]int{}},
		"a first miss":                  {present: []string{"a"}, answers: map[string]bool{"a": false}, want: map[string]int{"a": 1}},
		"a second miss":                 {misses: map[string]int{"a": 1}, present: []string{"a"}, answers: map[string]bool{"a": false}, want: map[string]int{"a": 2}},
		"a third miss":                  {misses: map[string]int{"a": 2}, present: []string{"a"}, answers: map[string]bool{"a": false}, want: map[string]int{"a": 2}},
		"an answer after one miss":      {misses: map[string]int{"a": 1}, present: []string{"a"}, answers: map[string]bool{"a": true}, want: map[string]int{}},
		"an answer after many":          {misses: map[string]int{"a": 2}, present: []string{"a"}, answers: map[string]bool{"a": true}, want: map[string]int{}},
		"it was not asked":              {misses: map[string]int{"a": 1}, present: []string{"a"}, want: map[string]int{"a": 1}},
		"it is gone":                    {misses: map[string]int{"a": 2}, want: map[string]int{}},
		"another one answers meanwhile": {misses: map[string]int{"a": 1}, present: []string{"a", "b"}, answers: map[string]bool{"a": false, "b": true}, want: map[string]int{"a": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, next(tc.misses, tc.present, tc.answers))
		})
	}
}

func TestTheProberNoticesThatAGatewayIsLostAndBack(t *testing.T) {
	t.Parallel()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	listed := slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", new(true), nil), endpoint("10.0.0.2", new(true), nil))
	listed.ObjectMeta = metav1.ObjectMeta{Namespace: "rouse-system", Name: "g", Labels: map[string]string{discoveryv1.LabelServiceName: "rouse-gateway"}}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&listed).WithIndex(&discoveryv1.EndpointSlice{}, serviceIndex, indexService).Build()
	reachable, ok := newNetwork(), func(http.ResponseWriter, *http.Request) {}
	stop := reachable.serve(t, "10.0.0.1", ok)
	reachable.serve(t, "10.0.0.2", ok)
	changes := make(chan struct{}, 100)
	probes := &prober{
		reader: reader, service: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}, health: newCaller(reachable.dial),
		changed: func(context.Context) { changes <- struct{}{} }, log: logr.Discard(),
	}
	require.False(t, probes.probe(t.Context(), true))
	require.False(t, probes.lost("10.0.0.1"))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- probes.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	stop()
	await(t, changes)
	require.True(t, probes.lost("10.0.0.1"))
	require.False(t, probes.lost("10.0.0.2"))
	reachable.serve(t, "10.0.0.1", ok)
	await(t, changes)
	require.False(t, probes.lost("10.0.0.1"))
}
