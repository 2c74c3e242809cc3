package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are shared by all dispatchers of a process; each binds its Subscription's children once.
type Metrics struct {
	deliveries   *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	inFlight     *prometheus.GaugeVec
	deadLetters  *prometheus.CounterVec
	settleErrors *prometheus.CounterVec
	fetchErrors  *prometheus.CounterVec
}

// NewMetrics registers the delivery metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	subscription := []string{"namespace", "subscription"}
	m := &Metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_deliveries_total",
			Help: "Settled delivery attempts by outcome: ack, retry or reject.",
		}, append(subscription, "outcome")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rouse_eventbridge_delivery_duration_seconds",
			Help:    "Time from handing an event to the sink until its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18), // 1 ms to 131 s
		}, subscription),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_deliveries_in_flight",
			Help: "Messages that are being delivered.",
		}, subscription),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_dead_letters_total",
			Help: "Events stored as dead letters by reason.",
		}, append(subscription, "reason")),
		settleErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_settle_errors_total",
			Help: "Messages that could not be settled; the broker delivers them again.",
		}, subscription),
		fetchErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_fetch_errors_total",
			Help: "Fetches that failed.",
		}, subscription),
	}
	registerer.MustRegister(m.deliveries, m.duration, m.inFlight, m.deadLetters, m.settleErrors, m.fetchErrors)
	return m
}

// Forget drops the series of a Subscription that no longer exists.
func (m *Metrics) Forget(s Subscription) {
	labels := prometheus.Labels{"namespace": s.Namespace, "subscription": s.Name}
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.deliveries, m.duration, m.inFlight, m.deadLetters, m.settleErrors, m.fetchErrors,
	} {
		vec.DeletePartialMatch(labels)
	}
}

// bound are the children of one Subscription: the hot path looks no label up.
type bound struct {
	outcomes     map[Outcome]prometheus.Counter
	duration     prometheus.Observer
	inFlight     prometheus.Gauge
	deadLetters  *prometheus.CounterVec // curried; dead letters are rare
	settleErrors prometheus.Counter
	fetchErrors  prometheus.Counter
}

func (m *Metrics) bind(s Subscription) bound {
	b := bound{
		outcomes:     map[Outcome]prometheus.Counter{},
		duration:     m.duration.WithLabelValues(s.Namespace, s.Name),
		inFlight:     m.inFlight.WithLabelValues(s.Namespace, s.Name),
		deadLetters:  m.deadLetters.MustCurryWith(prometheus.Labels{"namespace": s.Namespace, "subscription": s.Name}),
		settleErrors: m.settleErrors.WithLabelValues(s.Namespace, s.Name),
		fetchErrors:  m.fetchErrors.WithLabelValues(s.Namespace, s.Name),
	}
	for _, outcome := range []Outcome{Ack, Retry, Reject} {
		b.outcomes[outcome] = m.deliveries.WithLabelValues(s.Namespace, s.Name, string(outcome))
	}
	return b
}
