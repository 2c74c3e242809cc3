package function

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// reachBuckets range from a reconciliation without a build to a build that waits in the queue.
var reachBuckets = []float64{.1, .3, 1, 3, 10, 30, 90, 300}

// metrics counts the controller's work. No label grows with the number of Functions.
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

// observe records one reconciliation of a Function.
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

// progress measures how long Functions take from a new spec to each of their conditions. It is safe for concurrent use
// and drops deleted Functions.
type progress struct {
	metrics *metrics

	mu        sync.Mutex
	functions map[types.NamespacedName]*rolloutTimer
}

// rolloutTimer measures the rollout of one generation of a Function.
type rolloutTimer struct {
	uid        types.UID
	generation int64
	// began is zero when the rollout began before the controller did, so that its duration is unknown.
	began   time.Time
	reached [len(timedConditions)]bool
}

// timedConditions are the conditions whose time is measured.
var timedConditions = [...]string{v1alpha2.ConditionConfigurationReady, v1alpha2.ConditionBuildReady, v1alpha2.ConditionRunning}

func newProgress(m *metrics) *progress {
	return &progress{metrics: m, functions: make(map[types.NamespacedName]*rolloutTimer)}
}

// begin records a Function before a reconciliation.
func (p *progress) begin(fn *v1alpha2.Function, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := client.ObjectKeyFromObject(fn)
	last := p.functions[key]
	known := last != nil && last.uid == fn.UID
	if known && last.generation == fn.Generation {
		return
	}
	next := &rolloutTimer{uid: fn.UID, generation: fn.Generation}
	switch {
	case known:
		next.began = now
	case len(fn.Status.Conditions) == 0: // no controller has reconciled it yet
		next.began = fn.CreationTimestamp.Time
	}
	if !known {
		p.metrics.processed.WithLabelValues(metricLabels(fn)).Inc()
	}
	p.functions[key] = next
}

// end records the conditions of a Function after a reconciliation.
func (p *progress) end(fn *v1alpha2.Function, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	timer := p.functions[client.ObjectKeyFromObject(fn)]
	if timer == nil || timer.began.IsZero() {
		return
	}
	runtime, source := metricLabels(fn)
	for i, state := range timedConditions {
		condition := meta.FindStatusCondition(fn.Status.Conditions, state)
		if timer.reached[i] || condition == nil ||
			condition.Status != "True" || condition.ObservedGeneration != timer.generation {
			continue
		}
		timer.reached[i] = true
		p.metrics.reached.WithLabelValues(runtime, source, state).Observe(now.Sub(timer.began).Seconds())
	}
}

// forget drops a deleted Function.
func (p *progress) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.functions, key)
}
