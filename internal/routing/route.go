package routing

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

// Route is the data plane's view of a Subscription.
type Route struct {
	// Subscription is the Subscription's name.
	Subscription types.NamespacedName
	// UID is the UID of the Subscription; empty in local mode.
	UID types.UID
	// Consumer is the name of the durable consumer.
	Consumer string
	// Subjects are the filter subjects of the consumer, in the order of the spec. The last one is Redelivery, unless a
	// wildcard covers it.
	Subjects []string
	// Redelivery is the subject of events that are redelivered to this Subscription alone.
	Redelivery string
	// Types has one entry for each distinct type of the spec, in its order.
	Types []TypeMapping
	// Sink is the URL as written in the spec.
	Sink string
	// Service is the Service behind the sink, empty if it is External.
	Service types.NamespacedName
	// Port is the Service's port: the port of the sink, or else the default of its scheme.
	Port int32
	// External is true when the sink is outside the cluster. A client that connects to it checks the address by
	// NeverSink.
	External bool
	// MaxInFlight bounds the concurrent deliveries. It is at least 1, and at most LargestMaxInFlight whatever the
	// Subscription requests.
	MaxInFlight int
	// Filter selects among the events of the types; nil matches all.
	Filter *eventingv1alpha2.Filter
	// Delivery tunes the deliveries.
	Delivery Delivery
	// Paused suspends deliveries.
	Paused bool
	// DeadLetters is the route of the Subscription's dead letters to a sink of their own; nil without such a sink.
	DeadLetters *Route
	// OfDeadLetters is true for a DeadLetters route, whose consumer has the same name, but belongs to the stream of
	// dead letters.
	OfDeadLetters bool
}

// TypeMapping holds the subject and the consumer of one event type of a Subscription.
type TypeMapping struct {
	// Original is the type as written in the spec.
	Original string
	// Clean is the type without characters that a subject cannot contain.
	Clean string
	// Subject is the subject of the type's events.
	Subject string
	// ConsumerName is the type's consumer name in the status. No such consumer exists, because one consumer serves all
	// types of a Subscription.
	ConsumerName string
}

// FromSubscription returns the Route of a Subscription. It returns ErrInvalidSink for a sink outside the namespace that
// the policy does not allow, ErrInvalidSubject for types that do not form a subject, and ErrNotAllowed for types that
// the namespace may not receive.
func FromSubscription(sub *eventingv1alpha2.Subscription, policy Policy) (Route, error) {
	to, err := parseSink(sub.Spec.Sink, sub.Namespace, policy)
	if err != nil {
		return Route{}, err
	}
	mappings, err := mapTypes(sub)
	if err != nil {
		return Route{}, err
	}
	for _, mapping := range mappings {
		if err := policy.Access.MaySubscribe(sub.Namespace, mapping.Subject); err != nil {
			return Route{}, fmt.Errorf("event type %.100q: %w", mapping.Original, err)
		}
	}
	deadLetters, err := deadLettersOf(sub, policy)
	if err != nil {
		return Route{}, err
	}
	consumer := ConsumerName(sub.Namespace, sub.Name)
	redelivery := RedeliverySubject(consumer)
	subjects := make([]string, 0, len(mappings)+1)
	for _, mapping := range mappings {
		subjects = append(subjects, mapping.Subject)
	}
	return Route{
		Subscription: types.NamespacedName{Namespace: sub.Namespace, Name: sub.Name},
		UID:          sub.UID,
		Consumer:     consumer,
		Subjects:     filters(append(subjects, redelivery)),
		Redelivery:   redelivery,
		Types:        mappings,
		Sink:         sub.Spec.Sink,
		Service:      to.service,
		Port:         to.port,
		External:     to.external,
		MaxInFlight:  maxInFlight(&sub.Spec),
		Filter:       sub.Spec.Filter,
		Delivery:     deliveryOf(sub.Spec.Delivery),
		Paused:       sub.Spec.Paused,
		DeadLetters:  deadLetters,
	}, nil
}

// deadLettersOf reads spec.delivery.deadLetter. The Subscription's delivery settings apply to spec.sink, so dead
// letters use the installation's defaults.
func deadLettersOf(sub *eventingv1alpha2.Subscription, policy Policy) (*Route, error) {
	sink, ok := DeadLetterSink(sub)
	if !ok {
		return nil, nil //nolint:nilnil // dead letters that are only kept have no route
	}
	to, err := parseSink(sink, sub.Namespace, policy)
	if err != nil {
		return nil, fmt.Errorf("sink of dead letters: %w", err)
	}
	name := types.NamespacedName{Namespace: sub.Namespace, Name: sub.Name}
	return &Route{
		Subscription:  name,
		Consumer:      ConsumerName(sub.Namespace, sub.Name),
		Subjects:      []string{DeadLetterSubject(name)},
		Sink:          sink,
		Service:       to.service,
		Port:          to.port,
		External:      to.external,
		MaxInFlight:   eventingv1alpha2.DefaultMaxInFlight,
		Paused:        sub.Spec.Paused,
		OfDeadLetters: true,
	}, nil
}

// DeadLetterSink returns the sink of a Subscription's dead letters, if it has one.
func DeadLetterSink(sub *eventingv1alpha2.Subscription) (string, bool) {
	if sub.Spec.Delivery == nil || sub.Spec.Delivery.DeadLetter == nil {
		return "", false
	}
	return sub.Spec.Delivery.DeadLetter.Sink, true
}

// WithDeadLetters yields each route, followed by the route of its dead letters.
func WithDeadLetters(routes []Route) iter.Seq[Route] {
	return func(yield func(Route) bool) {
		for _, route := range routes {
			if !yield(route) || route.DeadLetters != nil && !yield(*route.DeadLetters) {
				return
			}
		}
	}
}

// ConsumerName returns the name of the durable consumer of a Subscription.
func ConsumerName(namespace, name string) string {
	return shortHash(namespace + "/" + name)
}

// TypeConsumerName returns Kyma's name for the consumer of one type, whose description is namespace/name/subject.
func TypeConsumerName(description string) string { return shortHash(description) }

func mapTypes(sub *eventingv1alpha2.Subscription) ([]TypeMapping, error) {
	if len(sub.Spec.Types) == 0 {
		return nil, fmt.Errorf("%w: the Subscription has no types", ErrInvalidSubject)
	}
	exact := sub.Spec.TypeMatching == eventingv1alpha2.TypeMatchingExact
	mappings := make([]TypeMapping, 0, len(sub.Spec.Types))
	seen := make(map[string]bool, len(sub.Spec.Types))
	for _, eventType := range sub.Spec.Types {
		if seen[eventType] {
			continue
		}
		seen[eventType] = true

		subject := Subject(sub.Spec.Source, eventType, exact)
		if err := checkFilter(subject); err != nil {
			return nil, fmt.Errorf("event type %.100q: %w", eventType, err)
		}
		clean := eventType
		if !exact {
			clean = CleanType(eventType)
		}
		mappings = append(mappings, TypeMapping{
			Original:     eventType,
			Clean:        clean,
			Subject:      subject,
			ConsumerName: TypeConsumerName(sub.Namespace + "/" + sub.Name + "/" + subject),
		})
	}
	return mappings, nil
}

func maxInFlight(spec *eventingv1alpha2.SubscriptionSpec) int {
	if spec.Delivery != nil && spec.Delivery.MaxInFlight != nil {
		return min(max(int(*spec.Delivery.MaxInFlight), 1), eventingv1alpha2.LargestMaxInFlight)
	}
	value, err := strconv.Atoi(spec.Config[eventingv1alpha2.ConfigMaxInFlight])
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return eventingv1alpha2.DefaultMaxInFlight
	}
	return min(max(value, 1), eventingv1alpha2.LargestMaxInFlight)
}

// AsksForTooMany reports whether a Subscription requests more concurrent deliveries than LargestMaxInFlight.
func AsksForTooMany(spec *eventingv1alpha2.SubscriptionSpec) bool {
	if spec.Delivery != nil && spec.Delivery.MaxInFlight != nil {
		return *spec.Delivery.MaxInFlight > eventingv1alpha2.LargestMaxInFlight
	}
	value, _ := strconv.Atoi(spec.Config[eventingv1alpha2.ConfigMaxInFlight]) // the largest int when out of range
	return value > eventingv1alpha2.LargestMaxInFlight
}

// shortHash returns 128 bits of a hash, short enough for a consumer name.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// Delivery holds a Subscription's settings for deliveries. Zero values mean the installation's defaults.
type Delivery struct {
	// MaxAttempts is the number of attempts after which an event becomes a dead letter.
	MaxAttempts int
	// Backoff is the delay between attempts.
	Backoff Backoff
	// Timeout is the timeout of one attempt.
	Timeout time.Duration
	// TTL is the maximum age of an event, 0 for any age.
	TTL time.Duration
	// EventsPerSecond is the rate limit, 0 for none.
	EventsPerSecond int
	// OrderedBy is the attribute by which events are ordered, empty for no order.
	OrderedBy string
	// StartFrom is the position at which a new consumer starts.
	StartFrom StartFrom
	// Webhook signs the deliveries; nil for none.
	Webhook *Webhook
}

// Webhook signs deliveries by the keys in a Secret.
type Webhook struct {
	SecretName string
	// Keys are nil while nobody has them.
	Keys *SigningKeys
}

// SigningKeys are the contents of the Secret.
type SigningKeys struct{ Current, Previous []byte }

// String implements fmt.Stringer without the keys.
func (SigningKeys) String() string { return "(keys)" }

// Backoff is the delay between attempts.
type Backoff struct {
	Policy          eventingv1alpha2.BackoffPolicy
	Delay, MaxDelay time.Duration
}

// StartFrom is a position in the stream. The zero value means new events only.
type StartFrom struct {
	Position eventingv1alpha2.StartPosition
	Time     time.Time
	Sequence uint64
}

// deliveryOf reads spec.delivery.
func deliveryOf(spec *eventingv1alpha2.Delivery) Delivery {
	if spec == nil {
		return Delivery{}
	}
	d := Delivery{OrderedBy: spec.OrderedBy}
	if spec.MaxAttempts != nil {
		d.MaxAttempts = int(*spec.MaxAttempts)
	}
	if spec.Timeout != nil {
		d.Timeout = spec.Timeout.Duration
	}
	if spec.TTL != nil {
		d.TTL = spec.TTL.Duration
	}
	if spec.RateLimit != nil {
		d.EventsPerSecond = int(spec.RateLimit.EventsPerSecond)
	}
	if spec.Backoff != nil {
		d.Backoff = backoffOf(*spec.Backoff)
	}
	if spec.StartFrom != nil {
		d.StartFrom = startOf(*spec.StartFrom)
	}
	if spec.Webhook != nil {
		d.Webhook = &Webhook{SecretName: spec.Webhook.SecretName}
	}
	return d
}

func backoffOf(spec eventingv1alpha2.Backoff) Backoff {
	b := Backoff{Policy: spec.Policy}
	if spec.Delay != nil {
		b.Delay = spec.Delay.Duration
	}
	if spec.MaxDelay != nil {
		b.MaxDelay = spec.MaxDelay.Duration
	}
	return b
}

func startOf(spec eventingv1alpha2.StartFrom) StartFrom {
	s := StartFrom{Position: spec.Position}
	if spec.Time != nil {
		s.Time = spec.Time.Time
	}
	if spec.Sequence != nil {
		s.Sequence = uint64(max(*spec.Sequence, 0))
	}
	return s
}

// Ahead is the number of events that are prefetched beyond those in flight: as many as fast sinks handle in the time
// from an acknowledgement to the next events.
const Ahead = 128

// leastShared is the smallest limit of deliveries that replicas divide, so that each of this many replicas has at least
// one.
const leastShared = 8

// Ahead returns the number of events that the replicas of the data plane may prefetch beyond those in flight, so that a
// sink need not wait for the round trip from an acknowledgement to the next event. The server bounds the sum of both,
// and replicas divide the deliveries among themselves. It is 0 where only the server bounds the deliveries: where they
// are few or ordered.
func (r Route) Ahead() int {
	if r.MaxInFlight < leastShared || r.Delivery.OrderedBy != "" || r.OfDeadLetters {
		return 0
	}
	return Ahead
}

// Share returns the number of deliveries that one of several replicas may have in flight, and the number of events that
// it may prefetch. It is for routes whose Ahead is not 0.
func (r Route) Share(replicas int) (deliveries, held int) {
	replicas = max(replicas, 1)
	return max(r.MaxInFlight/replicas, 1), r.Ahead() / replicas
}
