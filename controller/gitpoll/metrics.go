package gitpoll

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

type metrics struct {
	checks  *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_controller_git_checks_total", Help: "Requests for the references of Git repositories, by result.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rouse_controller_git_check_duration_seconds", Help: "How long a Git repository takes to list its references.",
			Buckets: []float64{.05, .1, .3, 1, 3, 10, 30},
		}),
	}
	registry.MustRegister(m.checks, m.seconds)
	return m
}

func (m *metrics) observe(err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.checks.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}

// named is a Function of which the queue needs no more than the name.
func named(function types.NamespacedName) client.Object {
	return &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: function.Namespace, Name: function.Name}}
}
