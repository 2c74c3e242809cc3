package function

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// reachBuckets reach from a reconciliation without a build to a build that waits
// in the queue.
var reachBuckets = []float64{.1, .3, 1, 3, 10, 30, 90, 300}

// metrics count what the controller does. No label grows with the number of
// Functions.
type metrics struct {
	processed       *prometheus.CounterVec
	reconciliations *prometheus.CounterVec
	duration        *prometheus.HistogramVec
	reached         *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	labels := []string{"runtime", "source"}
	return &metrics{
		processed: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "serverless_function_processed_total", Help: "Functions that the controller has met since it started.",
		}, labels),
		reconciliations: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "serverless_function_reconciliations_total", Help: "Reconciliations of Functions.",
		}, labels),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "serverless_function_reconciliation_time_seconds", Help: "Time of one reconciliation of a Function.",
			Buckets: prometheus.DefBuckets,
		}, labels),
		reached: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "serverless_function_state_reach_time_seconds", Buckets: reachBuckets,
			Help: "Time from a new spec to a condition that becomes True for it.",
		}, append(labels, "state")),
	}
}

// observe counts one reconciliation of a Function.
func (m *metrics) observe(fn *v1alpha2.Function, took time.Duration) {
	runtime, source := metricLabels(fn)
	m.reconciliations.WithLabelValues(runtime, source).Inc()
	m.duration.WithLabelValues(runtime, source).Observe(took.Seconds())
}

func metricLabels(fn *v1alpha2.Function) (runtime, source string) {
	source = "inline"
	if fn.Spec.Source.GitRepository != nil {
		source = "git"
	}
	return string(fn.Spec.Runtime), source
}
