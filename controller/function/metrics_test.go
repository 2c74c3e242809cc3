package function

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// became sets a condition to True for the Function's generation.
func became(fn *v1alpha2.Function, condition string) {
	meta.SetStatusCondition(&fn.Status.Conditions, metav1.Condition{
		Type: condition, Status: metav1.ConditionTrue, Reason: "x", ObservedGeneration: fn.Generation,
	})
}

func TestProgressMeasuresFromANewSpecToEachCondition(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	p := newProgress(newMetrics(registry))
	fn := newFunction(func(fn *v1alpha2.Function) { fn.CreationTimestamp = metav1.NewTime(noon()) })
	key := client.ObjectKeyFromObject(fn)

	p.begin(fn, noon().Add(time.Second))
	became(fn, v1alpha2.ConditionConfigurationReady)
	p.end(fn, noon().Add(2*time.Second))
	p.begin(fn, noon().Add(5*time.Second))
	became(fn, v1alpha2.ConditionRunning)
	p.end(fn, noon().Add(9*time.Second))
	p.end(fn, noon().Add(time.Hour)) // counted once

	fn.Generation++
	p.begin(fn, noon().Add(2*time.Hour))
	p.end(fn, noon().Add(2*time.Hour)) // the conditions belong to the previous spec
	became(fn, v1alpha2.ConditionRunning)
	p.end(fn, noon().Add(2*time.Hour+200*time.Millisecond))

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP serverless_function_processed_total Functions that the controller has met since it started.
# TYPE serverless_function_processed_total counter
serverless_function_processed_total{runtime="nodejs22",source="inline"} 1
# HELP serverless_function_state_reach_time_seconds Time from a new spec to a condition that becomes True for it.
# TYPE serverless_function_state_reach_time_seconds histogram
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="0.1"} 0
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="0.3"} 0
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="1"} 0
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="3"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="10"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="30"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="90"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="300"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="ConfigurationReady",le="+Inf"} 1
serverless_function_state_reach_time_seconds_sum{runtime="nodejs22",source="inline",state="ConfigurationReady"} 2
serverless_function_state_reach_time_seconds_count{runtime="nodejs22",source="inline",state="ConfigurationReady"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="0.1"} 0
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="0.3"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="1"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="3"} 1
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="10"} 2
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="30"} 2
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="90"} 2
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="300"} 2
serverless_function_state_reach_time_seconds_bucket{runtime="nodejs22",source="inline",state="Running",le="+Inf"} 2
serverless_function_state_reach_time_seconds_sum{runtime="nodejs22",source="inline",state="Running"} 9.2
serverless_function_state_reach_time_seconds_count{runtime="nodejs22",source="inline",state="Running"} 2
`), "serverless_function_processed_total", "serverless_function_state_reach_time_seconds"))

	p.forget(key)
	require.Empty(t, p.functions)
}

func TestARolloutThatBeganBeforeTheControllerIsNotMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	p := newProgress(newMetrics(registry))
	fn := newFunction()
	became(fn, v1alpha2.ConditionRunning)
	p.begin(fn, noon())
	p.end(fn, noon())
	count, err := testutil.GatherAndCount(registry, "serverless_function_state_reach_time_seconds")
	require.NoError(t, err)
	require.Zero(t, count)
}

func TestReconciliationsAreCountedByRuntimeAndSource(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	for range 3 {
		_, err := b.reconcile()
		require.NoError(t, err)
	}
	require.InDelta(t, 3, testutil.ToFloat64(b.metrics.reconciliations.WithLabelValues("nodejs22", "inline")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(b.metrics.processed.WithLabelValues("nodejs22", "inline")), 0)
	require.Equal(t, 1, testutil.CollectAndCount(b.metrics.duration))

	require.NoError(t, b.client.Delete(t.Context(), b.function()))
	_, err := b.reconcile()
	require.NoError(t, err)
	require.Empty(t, b.progress.functions, "deleted Functions must be forgotten")

	runtime, source := metricLabels(newFunction(func(fn *v1alpha2.Function) {
		fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{}}
	}))
	require.Equal(t, "nodejs22 git", runtime+" "+source)
}
