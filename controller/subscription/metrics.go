package subscription

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// metrics are updated by the sweeper, which lists all consumers anyway. Only the leading controller has them.
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

// show records the backlogs of the consumers, and drops the series of deleted ones.
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

// backlogs is a gauge for each Subscription. A series exists only while it is collected, because there are thousands.
type backlogs struct {
	description *prometheus.Desc

	mu   sync.Mutex
	left map[types.NamespacedName]uint64 // replaced, never modified
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

// newDenials counts the reconciliations of Subscriptions to events that their namespace may not receive.
func newDenials(registerer prometheus.Registerer) *prometheus.CounterVec {
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rouse_controller_subscription_denials_total",
		Help: "Times that a Subscription was found to ask for events that the operator does not allow its namespace.",
	}, []string{"namespace"})
	registerer.MustRegister(denials)
	return denials
}

// kymaBackend is the name of NATS in Kyma's dashboards.
const kymaBackend = "NATS_Jetstream"

// readiness exposes which Subscriptions are ready, under the name that Kyma's dashboards query. Only the leading
// controller knows all of them. A series exists only while it is collected, because there are thousands.
type readiness struct {
	description *prometheus.Desc

	mu    sync.Mutex
	shown map[types.NamespacedName]consumerReadiness
}

// consumerReadiness is the readiness of all consumers of a Subscription.
type consumerReadiness struct {
	consumers []string // each once
	ready     float64
}

func newReadiness(registerer prometheus.Registerer, stream string) *readiness {
	r := &readiness{
		description: prometheus.NewDesc("eventing_ec_subscription_status", "1 while a Subscription is ready, 0 while it is not.",
			[]string{"subscription_name", "subscription_namespace", "consumer_name"},
			prometheus.Labels{"eventing_backend": kymaBackend, "stream_name": stream}),
		shown: map[types.NamespacedName]consumerReadiness{},
	}
	registerer.MustRegister(r)
	return r
}

// show records whether the consumers of the Subscription's status are ready. A Subscription without consumers keeps its
// previous ones, or has one without a name.
func (r *readiness) show(name types.NamespacedName, consumers []string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(consumers) == 0 {
		consumers = r.shown[name].consumers
	}
	if len(consumers) == 0 {
		consumers = []string{""}
	}
	now := consumerReadiness{consumers: slices.Compact(slices.Sorted(slices.Values(consumers)))}
	if ready {
		now.ready = 1
	}
	r.shown[name] = now
}

// forget drops the series of a deleted Subscription.
func (r *readiness) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.shown, name)
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(to chan<- *prometheus.Desc) { to <- r.description }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	shown := maps.Clone(r.shown)
	r.mu.Unlock()
	for name, now := range shown {
		for _, consumer := range now.consumers {
			to <- prometheus.MustNewConstMetric(r.description, prometheus.GaugeValue, now.ready, name.Name, name.Namespace, consumer)
		}
	}
}

// consumerNames returns the consumers that the status lists for the types of a route.
func consumerNames(route routing.Route) []string {
	names := make([]string, 0, len(route.Types))
	for _, mapping := range route.Types {
		names = append(names, mapping.ConsumerName)
	}
	return names
}
