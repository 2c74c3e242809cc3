package activator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// waitBuckets reach from a pod that is there to one that pulls its image.
var waitBuckets = []float64{.01, .05, .1, .25, .5, .75, 1, 1.5, 2, 3, 5, 8, 15, 30, 60}

type metrics struct {
	requests *prometheus.CounterVec
	wait     prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_requests_total",
			Help: "Requests to activators that have ended, by how: served, timeout, overload, broken, client_gone, unfinished or failed.",
		}, []string{"outcome"}),
		wait: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "rouse_gateway_wait_seconds", Help: "Time that requests waited for a pod which then got them.", Buckets: waitBuckets,
		}),
	}
}

func (m *metrics) finished(e *exchange) {
	m.requests.WithLabelValues(string(e.outcome)).Inc()
	if e.outcome == served && e.waited >= time.Millisecond {
		m.wait.Observe(e.waited.Seconds())
	}
}
