package subscription

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// kymaBackend is what Kyma's dashboards know NATS by.
const kymaBackend = "NATS_Jetstream"

// readiness shows which Subscriptions are ready, under the name that Kyma's dashboards ask for. Only the controller
// that leads knows it of all of them.
type readiness struct {
	gauge  *prometheus.GaugeVec
	stream string

	mu    sync.Mutex
	shown map[types.NamespacedName][]string // the consumers of each Subscription
}

func newReadiness(registerer prometheus.Registerer, stream string) *readiness {
	r := &readiness{
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "eventing_ec_subscription_status", Help: "1 while a Subscription is ready, 0 while it is not.",
		}, []string{"subscription_name", "subscription_namespace", "consumer_name", "eventing_backend", "stream_name"}),
		stream: stream,
		shown:  map[types.NamespacedName][]string{},
	}
	registerer.MustRegister(r.gauge)
	return r
}

// show sets for each consumer of the Subscription's status whether it is ready. A Subscription without them keeps those
// that it had, or has one without a name.
func (r *readiness) show(name types.NamespacedName, consumers []string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.shown[name]
	if len(consumers) == 0 {
		consumers = before
	}
	if len(consumers) == 0 {
		consumers = []string{""}
	}
	value := 0.0
	if ready {
		value = 1
	}
	for _, consumer := range consumers {
		r.gauge.WithLabelValues(r.labels(name, consumer)...).Set(value)
	}
	for _, consumer := range before {
		if !slices.Contains(consumers, consumer) {
			r.gauge.DeleteLabelValues(r.labels(name, consumer)...)
		}
	}
	r.shown[name] = consumers
}

// forget drops the series of a Subscription that is gone.
func (r *readiness) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, consumer := range r.shown[name] {
		r.gauge.DeleteLabelValues(r.labels(name, consumer)...)
	}
	delete(r.shown, name)
}

func (r *readiness) labels(name types.NamespacedName, consumer string) []string {
	return []string{name.Name, name.Namespace, consumer, kymaBackend, r.stream}
}

// consumerNames are those that the status gives to the types of a route.
func consumerNames(route routing.Route) []string {
	names := make([]string, 0, len(route.Types))
	for _, mapping := range route.Types {
		names = append(names, mapping.ConsumerName)
	}
	return names
}
