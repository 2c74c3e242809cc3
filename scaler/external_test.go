package scaler

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/scaler/httpload"
)

func TestAnAutoscalerGetsTheBacklogOfItsNamespace(t *testing.T) {
	t.Parallel()
	route := routeTo(shop, "pricing", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.set(route, broker.Backlog{Pending: 42})
		value, err := r.external(shop, MetricName, "function", "pricing")
		require.NoError(t, err)
		require.Equal(t, int64(42_000), value)

		value, err = r.external("other", MetricName, "function", "pricing")
		require.NoError(t, err)
		require.Zero(t, value, "another namespace has another Function")

		r.broker.set(route, broker.Backlog{})
		advance(r.options.Refresh.ActiveInterval + r.options.Refresh.WakeGrace)
		value, err = r.external(shop, MetricName, "service", "pricing")
		require.NoError(t, err)
		require.Zero(t, value)
	}, route)
}

func TestAnAutoscalerGetsTheReplicasThatAllMetricsWant(t *testing.T) {
	t.Parallel()
	route := routeTo(shop, "pricing", "orders", orderPlaced)
	for name, tc := range map[string]struct {
		backlog     uint64
		requests    int
		selector    []string
		thousandths int64
	}{
		"of the widest Subscription":   {backlog: 32, thousandths: 3200},
		"of the selector's threshold":  {backlog: 32, selector: []string{"lagThreshold", "5"}, thousandths: 6400},
		"of requests, which want more": {backlog: 5, requests: 3, selector: []string{"httpConcurrency", "2"}, thousandths: 1500},
		"of a backlog, which does":     {backlog: 20, requests: 3, selector: []string{"httpConcurrency", "2"}, thousandths: 2000},
		"of a part of what one takes":  {backlog: 1, selector: []string{"lagThreshold", "300000"}, thousandths: 1},
		"of nothing":                   {thousandths: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(r *rig) {
				r.broker.set(route, broker.Backlog{Pending: tc.backlog})
				for range tc.requests {
					r.gateways.take(route.Service, true)
				}
				value, err := r.external(shop, activation.ReplicasMetric, append([]string{"function", "pricing"}, tc.selector...)...)
				require.NoError(t, err)
				require.Equal(t, tc.thousandths, value)
			}, route)
		})
	}
}

func TestAnAutoscalerKeepsAFunctionThatMustStayAwake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		service, labels := routeTo(shop, "pricing", "").Service, []string{"function", "pricing", "httpConcurrency", "50"}
		_, err := r.external(shop, MetricName, labels...)
		require.NoError(t, err)
		r.awake(service, true)
		advance(time.Second)
		for _, metric := range []string{MetricName, httpload.MetricName, activation.ReplicasMetric} {
			value, err := r.external(shop, metric, labels...)
			require.NoError(t, err)
			require.Equal(t, int64(1), value, "%s: it has pods, and its gateways are not listed", metric)
		}
		for range 3 {
			r.gateways.take(service, true)
		}
		value, err := r.external(shop, httpload.MetricName, labels...)
		require.NoError(t, err)
		require.Equal(t, int64(3000), value)
	})
}

func TestAnAutoscalerGetsAnErrorWhereAValueIsNotKnown(t *testing.T) {
	t.Parallel()
	route := routeTo(shop, "pricing", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.breakDown()
		_, err := r.external(shop, MetricName, "function", "pricing")
		require.Error(t, err)
		_, invalid := ExternalMetricError(err)
		require.False(t, invalid, "%v", err)
	}, route)
}

func TestAnAutoscalersWrongSelectorIsNamed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		for says, labels := range map[string][]string{
			"add function or service to its matchLabels": {},
			"metadata lagThreshold is \"many\"":          {"function", "pricing", "lagThreshold", "many"},
			"metadata namespace is not accepted":         {"function", "pricing", "namespace", "other"},
			"must be the name of a Function":             {"function", "Pricing"},
		} {
			_, err := r.external(shop, MetricName, labels...)
			text, invalid := ExternalMetricError(err)
			require.True(t, invalid, "%v", err)
			require.Contains(t, text, says)
		}
		_, err := r.external(shop, "cpu", "function", "pricing")
		text, invalid := ExternalMetricError(err)
		require.True(t, invalid)
		require.Contains(t, text, `the trigger has no metric "cpu"`)
	})
}

func TestANamespaceThatAsksForManyLeavesTheOthersTheirs(t *testing.T) {
	t.Parallel()
	metrics := newMetrics(prometheus.NewRegistry())
	deps, options := Deps{}, DefaultOptions()
	follow := newTracker(&deps, &options, metrics)
	follow.places = fair.NewPool(fair.Limits{Total: 8})
	ask := func(namespace, name string) error {
		_, err := follow.function(request{target: target{function: types.NamespacedName{Namespace: namespace, Name: name}}})
		return err
	}
	var refused error
	followed := 0
	for ; refused == nil && followed <= 8; followed++ {
		refused = ask("hostile", strconv.Itoa(followed))
	}
	require.ErrorContains(t, refused, "the scaler follows 4 triggers of namespace hostile")
	_, invalid := ExternalMetricError(refused)
	require.False(t, invalid, "the replicas stay")
	require.NoError(t, ask("hostile", "0"), "what is followed goes on")
	require.NoError(t, ask("quiet", "pricing"))
}

func TestWhatIsFollowedFitsIntoTheMemory(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{math.MaxInt64: 32_768, 256 << 20: 8192, 1 << 20: 1024} {
		require.Equal(t, want, followedWithin(limit))
	}
}

// external asks for a metric with a selector of keys and values.
func (r *rig) external(namespace, metric string, selector ...string) (int64, error) {
	synctest.Wait() // it serves: a server that is stopped before has an error
	labels := map[string]string{}
	for i := 0; i < len(selector); i += 2 {
		labels[selector[i]] = selector[i+1]
	}
	return r.scaler.ExternalMetric(r.t.Context(), namespace, metric, labels)
}
