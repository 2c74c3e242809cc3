package entrance

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rouse-run/rouse/internal/httplimit"
)

// What clients have a share of, the label of refused and evicted.
const (
	whatConnection = "connection"
	whatRequest    = "request"
)

type metrics struct {
	refused  *prometheus.CounterVec
	evicted  *prometheus.CounterVec
	failures prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, certificates *certificates, requests *httplimit.Places) *metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_gateway_entrance_requests", Help: "Requests from outside that are being answered.",
	}, func() float64 { return float64(requests.Held()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_gateway_tls_certificates", Help: "Certificates that are served.",
	}, func() float64 { return float64(len(certificates.all())) })
	registerer.MustRegister(expiries{certificates})
	m := &metrics{
		refused: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_entrance_refused_total", Help: "Connections and requests from outside that were more than an address, or all, may have.",
		}, []string{"what"}),
		evicted: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_entrance_evicted_total", Help: "Connections and requests from outside that were ended for further ones, as their clients were slowest.",
		}, []string{"what"}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_tls_failed_reloads_total", Help: "Certificates that were found broken, of which each is counted once.",
		}),
	}
	for _, what := range []string{whatConnection, whatRequest} {
		m.refused.WithLabelValues(what)
		m.evicted.WithLabelValues(what)
	}
	return m
}

// full counts what further clients have cost others, or themselves.
func (m *metrics) full(what string, evicted int, refused bool) {
	if evicted > 0 {
		m.evicted.WithLabelValues(what).Add(float64(evicted))
	}
	if refused {
		m.refused.WithLabelValues(what).Inc()
	}
}

// expiries tells until when each certificate is valid. There are as many as the operator has named.
type expiries struct{ of *certificates }

var expiry = prometheus.NewDesc("rouse_gateway_tls_certificate_expiry_timestamp_seconds", "When a certificate that is served ends.", []string{"folder"}, nil)

// Describe implements prometheus.Collector.
func (e expiries) Describe(to chan<- *prometheus.Desc) { to <- expiry }

// Collect implements prometheus.Collector.
func (e expiries) Collect(to chan<- prometheus.Metric) {
	for _, each := range e.of.all() {
		to <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(each.leaf.NotAfter.UnixNano())/float64(time.Second), each.folder)
	}
}
