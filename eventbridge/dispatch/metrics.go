package dispatch

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are shared by all dispatchers of a process; each binds its Subscription's children once, with the first message:
// they are most of what an idle Subscription would take.
type Metrics struct {
	deliveries    *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	inFlight      *prometheus.GaugeVec
	detached      *prometheus.GaugeVec
	detachedCalls *prometheus.CounterVec
	deadLetters   *prometheus.CounterVec
	settleErrors  *prometheus.CounterVec
	receiveErrors *prometheus.CounterVec
	filterErrors  *prometheus.CounterVec
	replies       *prometheus.CounterVec
}

// The beginnings of the names of metrics.
const (
	prefix               = "rouse_eventbridge_"
	prefixDeadLetterSink = "rouse_eventbridge_dead_letter_sink_"
)

// NewMetrics registers the delivery metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics { return newMetrics(registerer, prefix) }

// NewDeadLetterMetrics registers the metrics of the dispatchers that deliver dead letters to dead-letter sinks.
func NewDeadLetterMetrics(registerer prometheus.Registerer) *Metrics {
	return newMetrics(registerer, prefixDeadLetterSink)
}

func newMetrics(registerer prometheus.Registerer, prefix string) *Metrics {
	subscription := []string{"namespace", "subscription"}
	m := &Metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "deliveries_total",
			Help: "Settled deliveries by outcome: ack, skip (the filter), retry, return (not reached) or reject.",
		}, append(subscription, "outcome")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "delivery_duration_seconds",
			Help:    "Time from handing an event to the sink until its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18), // 1 ms to 131 s
		}, subscription),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "deliveries_in_flight",
			Help: "Messages that are being delivered.",
		}, subscription),
		detached: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "detached_calls",
			Help: "Slow calls that no longer count for maxInFlight.",
		}, subscription),
		detachedCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "calls_detached_total",
			Help: "Slow calls that were detached and no longer counted for maxInFlight.",
		}, subscription),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "dead_letters_total",
			Help: "Events stored as dead letters by reason, a code such as AttemptsExhausted.",
		}, append(subscription, "reason")),
		settleErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "settle_errors_total",
			Help: "Messages that could not be settled; the broker redelivers them.",
		}, subscription),
		receiveErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "receive_errors_total",
			Help: "Times that messages could not be received.",
		}, subscription),
		filterErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "filter_errors_total",
			Help: "Events that were not delivered because their filter could not be evaluated.",
		}, subscription),
		replies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "replies_total",
			Help: "Replies of sinks by result: published or invalid.",
		}, append(subscription, "result")),
	}
	for _, c := range m.all() {
		registerer.MustRegister(c)
	}
	return m
}

// vector is the common interface of the metric vectors.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

func (m *Metrics) all() []vector {
	return []vector{
		m.deliveries, m.duration, m.inFlight, m.detached, m.detachedCalls, m.deadLetters, m.settleErrors, m.receiveErrors,
		m.filterErrors, m.replies,
	}
}

// Forget drops the series of a Subscription that no longer exists.
func (m *Metrics) Forget(s Subscription) {
	labels := prometheus.Labels{"namespace": s.Namespace, "subscription": s.Name}
	for _, vec := range m.all() {
		vec.DeletePartialMatch(labels)
	}
}

// series binds the series of one Subscription when they are first used.
type series struct {
	metrics *Metrics
	of      Subscription
	once    sync.Once
	bound   *bound
}

func (s *series) get() *bound {
	s.once.Do(func() { s.bound = s.metrics.bind(s.of) })
	return s.bound
}

// bound are the series of one Subscription: the hot path looks up no labels.
type bound struct {
	outcomes      map[Outcome]prometheus.Counter
	duration      prometheus.Observer
	inFlight      prometheus.Gauge
	detached      prometheus.Gauge
	detachedCalls prometheus.Counter
	deadLetters   *prometheus.CounterVec // curried; dead letters are rare
	settleErrors  prometheus.Counter
	filterErrors  prometheus.Counter
	replies       prometheus.Counter
	replyErrors   prometheus.Counter
}

func (m *Metrics) bind(s Subscription) *bound {
	b := &bound{
		outcomes:      map[Outcome]prometheus.Counter{},
		duration:      m.duration.WithLabelValues(s.Namespace, s.Name),
		inFlight:      m.inFlight.WithLabelValues(s.Namespace, s.Name),
		detached:      m.detached.WithLabelValues(s.Namespace, s.Name),
		detachedCalls: m.detachedCalls.WithLabelValues(s.Namespace, s.Name),
		deadLetters:   m.deadLetters.MustCurryWith(prometheus.Labels{"namespace": s.Namespace, "subscription": s.Name}),
		settleErrors:  m.settleErrors.WithLabelValues(s.Namespace, s.Name),
		filterErrors:  m.filterErrors.WithLabelValues(s.Namespace, s.Name),
		replies:       m.replies.WithLabelValues(s.Namespace, s.Name, "published"),
		replyErrors:   m.replies.WithLabelValues(s.Namespace, s.Name, "invalid"),
	}
	for _, outcome := range []Outcome{Ack, Skip, Retry, Return, Reject} {
		b.outcomes[outcome] = m.deliveries.WithLabelValues(s.Namespace, s.Name, string(outcome))
	}
	return b
}

// KymaMetrics are the delivery metrics under the names of Kyma's dashboards. Each replica exports its own: totals are
// the sum over the replicas, and states their maximum. The controller exports which Subscriptions are ready
// (eventing_ec_subscription_status).
type KymaMetrics struct {
	deliveries *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	types      *prometheus.CounterVec
}

// KymaType is one type of a Subscription.
type KymaType struct {
	Original string // as in the Subscription
	Clean    string // as part of a subject
	Consumer string // as in the Subscription's status
}

// KymaSubscription counts for one Subscription. Series are created when they are first counted.
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
	// kymaNoAnswer is Kyma's label for a delivery without an answer.
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

// Bind starts counting for a Subscription, from zero also if it was counted before.
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

// Forget drops the series of a removed Subscription.
func (m *KymaMetrics) Forget(s Subscription) {
	labels := prometheus.Labels{kymaName: s.Name, kymaNamespace: s.Namespace}
	m.deliveries.DeletePartialMatch(labels)
	m.duration.DeletePartialMatch(labels)
	m.types.DeletePartialMatch(labels)
}

// Attempted counts one attempt. eventType is one of the Subscription's types as in its spec; status is 0 without an
// answer.
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
