package registryproxy

import "github.com/prometheus/client_golang/prometheus"

// Outcomes of requests.
const (
	allowed         = "allowed"
	denied          = "denied"
	unauthenticated = "unauthenticated"
	limited         = "limited"
)

type metrics struct{ requests *prometheus.CounterVec }

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rouse_registry_requests_total", Help: "Requests to the registry by what the proxy before it decided.",
	}, []string{"outcome"})}
	registerer.MustRegister(m.requests)
	for _, outcome := range []string{allowed, denied, unauthenticated, limited} {
		m.requests.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) count(outcome string) { m.requests.WithLabelValues(outcome).Inc() }
