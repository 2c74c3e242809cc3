package subscription

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// kymaBackend is what Kyma's dashboards know NATS by.
const kymaBackend = "NATS_Jetstream"

// readiness shows which Subscriptions are ready, under the name that Kyma's dashboards ask for. Only the controller
// that leads knows it of all of them. A series exists only while it is collected: there are thousands.
type readiness struct {
	description *prometheus.Desc

	mu    sync.Mutex
	shown map[types.NamespacedName]consumerReadiness
}

// consumerReadiness is that of all consumers of a Subscription.
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

// show takes over whether the consumers of the Subscription's status are ready. A Subscription without them keeps those
// that it had, or has one without a name.
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

// forget drops the series of a Subscription that is gone.
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

// consumerNames are those that the status gives to the types of a route.
func consumerNames(route routing.Route) []string {
	names := make([]string, 0, len(route.Types))
	for _, mapping := range route.Types {
		names = append(names, mapping.ConsumerName)
	}
	return names
}
