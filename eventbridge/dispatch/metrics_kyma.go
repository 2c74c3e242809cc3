package dispatch

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// KymaMetrics are the delivery metrics under the names that Kyma's dashboards ask for. Each replica exports them for
// what it does itself: totals are the sum over the replicas, and states their maximum. Which Subscriptions are ready says the
// controller (eventing_ec_subscription_status).
type KymaMetrics struct {
	deliveries *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	types      *prometheus.CounterVec
}

// KymaType is one type of a Subscription.
type KymaType struct {
	Original string // as the Subscription has it
	Clean    string // as it is part of a subject
	Consumer string // the name that the Subscription's status gives
}

// KymaSubscription counts for one Subscription. Its series begin with what they first count.
type KymaSubscription struct {
	metrics      *KymaMetrics
	subscription Subscription
	sink         string
	consumers    map[string]string // by original type

	mu       sync.RWMutex
	attempts map[kymaAttempt]kymaBound
}

type kymaAttempt struct {
	eventType string
	code      int
}

type kymaBound struct {
	deliveries prometheus.Counter
	duration   prometheus.Observer
}

const (
	// kymaNoAnswer is what Kyma counts when a sink gave no answer.
	kymaNoAnswer = 500

	kymaName      = "subscription_name"
	kymaNamespace = "subscription_namespace"
	kymaEventType = "event_type"
	kymaConsumer  = "consumer_name"
)

// NewKymaMetrics registers the metrics.
func NewKymaMetrics(registerer prometheus.Registerer, connected func() bool) *KymaMetrics {
	attempt := []string{kymaName, kymaNamespace, kymaEventType, "sink", "response_code", kymaConsumer}
	m := &KymaMetrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventing_ec_nats_delivery_per_subscription_total", Help: "Delivery attempts by the sink's answer.",
		}, attempt),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "eventing_ec_nats_subscriber_dispatch_duration_seconds",
			Help:    "Time from handing an event to the sink until its answer.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 10),
		}, attempt),
		types: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventing_ec_event_type_subscribed_total", Help: "1 for each type that a Subscription takes.",
		}, []string{kymaName, kymaNamespace, kymaEventType, kymaConsumer}),
	}
	health := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "eventing_ec_health", Help: "1 while the process is connected to NATS.",
	}, func() float64 {
		if connected() {
			return 1
		}
		return 0
	})
	registerer.MustRegister(m.deliveries, m.duration, m.types, health)
	return m
}

// Bind begins to count for a Subscription, from zero also when it did before.
func (m *KymaMetrics) Bind(s Subscription, sink string, types []KymaType) *KymaSubscription {
	m.Forget(s)
	bound := &KymaSubscription{
		metrics: m, subscription: s, sink: sink, consumers: make(map[string]string, len(types)), attempts: map[kymaAttempt]kymaBound{},
	}
	for _, t := range types {
		bound.consumers[t.Original] = t.Consumer
		m.types.WithLabelValues(s.Name, s.Namespace, t.Clean, t.Consumer).Inc()
	}
	return bound
}

// Forget drops the series of a Subscription that no longer exists.
func (m *KymaMetrics) Forget(s Subscription) {
	labels := prometheus.Labels{kymaName: s.Name, kymaNamespace: s.Namespace}
	m.deliveries.DeletePartialMatch(labels)
	m.duration.DeletePartialMatch(labels)
	m.types.DeletePartialMatch(labels)
}

// Attempted counts one attempt. eventType is one of the Subscription's types, as it has it; status is 0 when the sink
// gave no answer.
func (k *KymaSubscription) Attempted(eventType string, status int, took time.Duration) {
	if status == 0 {
		status = kymaNoAnswer
	}
	bound := k.bind(kymaAttempt{eventType, status})
	bound.deliveries.Inc()
	bound.duration.Observe(took.Seconds())
}

func (k *KymaSubscription) bind(key kymaAttempt) kymaBound {
	k.mu.RLock()
	bound, ok := k.attempts[key]
	k.mu.RUnlock()
	if ok {
		return bound
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	labels := []string{
		k.subscription.Name, k.subscription.Namespace, key.eventType, k.sink, strconv.Itoa(key.code), k.consumers[key.eventType],
	}
	bound = kymaBound{
		deliveries: k.metrics.deliveries.WithLabelValues(labels...),
		duration:   k.metrics.duration.WithLabelValues(labels...),
	}
	k.attempts[key] = bound
	return bound
}
