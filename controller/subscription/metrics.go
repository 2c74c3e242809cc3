package subscription

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
)

// metrics are those of the sweeper, which sees all consumers anyway. Only the
// controller that leads has them.
type metrics struct {
	backlog    *prometheus.GaugeVec
	recoveries *prometheus.CounterVec
	shown      map[types.NamespacedName]bool
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		backlog: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_controller_backlog_events",
			Help: "Events that wait for a Subscription's sink or are being delivered, as of the last sweep.",
		}, []string{"namespace", "subscription"}),
		recoveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_controller_consumer_recoveries_total",
			Help: "Times that a consumer had events, did not deliver them, and was recovered.",
		}, []string{"namespace", "subscription", "remedy"}),
		shown: map[types.NamespacedName]bool{},
	}
	registerer.MustRegister(m.backlog, m.recoveries)
	return m
}

// show takes over what the consumers have left, and drops the series of those
// that are gone.
func (m *metrics) show(consumers []broker.Consumer) {
	gone := m.shown
	m.shown = make(map[types.NamespacedName]bool, len(consumers))
	for _, consumer := range consumers {
		key, ours := broker.SubscriptionOf(consumer)
		if !ours {
			continue
		}
		m.shown[key] = true
		delete(gone, key)
		m.backlog.WithLabelValues(key.Namespace, key.Name).Set(float64(consumer.Backlog.Total()))
	}
	for key := range gone {
		m.backlog.DeleteLabelValues(key.Namespace, key.Name)
		m.recoveries.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "subscription": key.Name})
	}
}

// newDenials counts the reconciliations of Subscriptions that asked for what their namespace may not have.
func newDenials(registerer prometheus.Registerer) *prometheus.CounterVec {
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rouse_controller_subscription_denials_total",
		Help: "Times that a Subscription was found to ask for events that the operator does not allow its namespace.",
	}, []string{"namespace"})
	registerer.MustRegister(denials)
	return denials
}
