package subscription

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
)

// metrics are those of the sweeper, which sees all consumers anyway. Only the
// controller that leads has them.
type metrics struct {
	backlogs   *backlogs
	recoveries *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		backlogs: &backlogs{description: prometheus.NewDesc(
			"rouse_controller_backlog_events", "Events that wait for a Subscription's sink or are being delivered, as of the last sweep.",
			[]string{"namespace", "subscription"}, nil,
		)},
		recoveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_controller_consumer_recoveries_total",
			Help: "Times that a consumer had events, did not deliver them, and was recovered.",
		}, []string{"namespace", "subscription", "remedy"}),
	}
	registerer.MustRegister(m.backlogs, m.recoveries)
	return m
}

// show takes over what the consumers have left, and drops the series of those
// that are gone.
func (m *metrics) show(consumers []broker.Consumer) {
	left := make(map[types.NamespacedName]uint64, len(consumers))
	for i := range consumers {
		if key, ours := broker.SubscriptionOf(consumers[i]); ours {
			left[key] = consumers[i].Backlog.Total()
		}
	}
	for key := range m.backlogs.replace(left) {
		if _, stays := left[key]; !stays {
			m.recoveries.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "subscription": key.Name})
		}
	}
}

// backlogs is a gauge for each Subscription. A series exists only while it is collected: there are thousands.
type backlogs struct {
	description *prometheus.Desc

	mu   sync.Mutex
	left map[types.NamespacedName]uint64 // is replaced and never changed
}

func (b *backlogs) replace(left map[types.NamespacedName]uint64) (before map[types.NamespacedName]uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.left = b.left, left
	return before
}

// Describe implements prometheus.Collector.
func (b *backlogs) Describe(to chan<- *prometheus.Desc) { to <- b.description }

// Collect implements prometheus.Collector.
func (b *backlogs) Collect(to chan<- prometheus.Metric) {
	b.mu.Lock()
	left := b.left
	b.mu.Unlock()
	for key, events := range left {
		to <- prometheus.MustNewConstMetric(b.description, prometheus.GaugeValue, float64(events), key.Namespace, key.Name)
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
