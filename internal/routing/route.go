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

// Route is a Subscription as the data plane sees it.
type Route struct {
	// Subscription is the source of the Route.
	Subscription types.NamespacedName
	// UID of the Subscription, which no other one of its name has; empty in local mode.
	UID types.UID
	// Consumer is the name of the durable consumer.
	Consumer string
	// Subjects are what the consumer filters on, in the order of the spec. The
	// last one is Redelivery, unless a wildcard covers it.
	Subjects []string
	// Redelivery is the subject on which events come back to this Subscription
	// alone, for another attempt.
	Redelivery string
	// Types has one entry for each different type of the spec, in its order.
	Types []TypeMapping
	// Sink is the URL as written in the spec.
	Sink string
	// Service is the Service behind the sink, empty if it is External.
	Service types.NamespacedName
	// Port is the Service's port: that of the sink, else that of its scheme.
	Port int32
	// External is true when the sink is outside the cluster. A client that connects
	// to it asks NeverSink about the address.
	External bool
	// MaxInFlight bounds the deliveries at a time. It is at least 1, and at most
	// LargestMaxInFlight whatever the Subscription asks for.
	MaxInFlight int
	// Filter picks from the events of the types; nil takes all.
	Filter *eventingv1alpha2.Filter
	// Delivery tunes the deliveries.
	Delivery Delivery
	// Paused is true while nothing is to be delivered.
	Paused bool
	// DeadLetters is the route of the Subscription's dead letters to a sink of their
	// own; nil if they only are kept.
	DeadLetters *Route
	// OfDeadLetters is true for a DeadLetters: its consumer, which has the name of
	// the Subscription's, is one of the stream of dead letters.
	OfDeadLetters bool
}

// TypeMapping holds the subject and the consumer of one event type of a Subscription.
type TypeMapping struct {
	// Original is the type as written in the spec.
	Original string
	// Clean is the type without what a subject cannot carry.
	Clean string
	// Subject is the subject of the type's events.
	Subject string
	// ConsumerName is how the status names the type. No consumer of that name
	// exists, because one consumer carries all types of a Subscription.
	ConsumerName string
}

// FromSubscription finds the Route of a Subscription. What would lead outside
// its namespace and is not allowed by the policy is refused with ErrInvalidSink,
// types that make no subject with ErrInvalidSubject, and types that its namespace
// may not have with ErrNotAllowed.
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

// deadLettersOf reads spec.delivery.deadLetter. What a Subscription says about its
// deliveries is for spec.sink, so dead letters have the limits of the installation.
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

// DeadLetterSink is the sink that a Subscription names for its dead letters, if it does.
func DeadLetterSink(sub *eventingv1alpha2.Subscription) (string, bool) {
	if sub.Spec.Delivery == nil || sub.Spec.Delivery.DeadLetter == nil {
		return "", false
	}
	return sub.Spec.Delivery.DeadLetter.Sink, true
}

// WithDeadLetters yields each route, and after it that of its dead letters.
func WithDeadLetters(routes []Route) iter.Seq[Route] {
	return func(yield func(Route) bool) {
		for _, route := range routes {
			if !yield(route) || route.DeadLetters != nil && !yield(*route.DeadLetters) {
				return
			}
		}
	}
}

// ConsumerName is the name of the durable consumer of a Subscription.
func ConsumerName(namespace, name string) string {
	return shortHash(namespace + "/" + name)
}

// TypeConsumerName is how Kyma names the consumer of one type, which its description
// has as namespace/name/subject.
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

// AsksForTooMany reports whether a Subscription names a limit of deliveries that counts as LargestMaxInFlight.
func AsksForTooMany(spec *eventingv1alpha2.SubscriptionSpec) bool {
	if spec.Delivery != nil && spec.Delivery.MaxInFlight != nil {
		return *spec.Delivery.MaxInFlight > eventingv1alpha2.LargestMaxInFlight
	}
	value, _ := strconv.Atoi(spec.Config[eventingv1alpha2.ConfigMaxInFlight]) // one that is out of range is the largest int
	return value > eventingv1alpha2.LargestMaxInFlight
}

// shortHash is short enough for a consumer name, and 128 bits long.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// Delivery holds a Subscription's settings for deliveries. Zero values mean the installation's defaults.
type Delivery struct {
	// MaxAttempts after which an event becomes a dead letter.
	MaxAttempts int
	// Backoff between attempts.
	Backoff Backoff
	// Timeout of one attempt.
	Timeout time.Duration
	// TTL limits the age of an event, 0 for any age.
	TTL time.Duration
	// EventsPerSecond is the rate limit, 0 for none.
	EventsPerSecond int
	// OrderedBy is the attribute by which events are kept in order, empty for none.
	OrderedBy string
	// StartFrom is the position at which a new consumer starts.
	StartFrom StartFrom
}

// Backoff is the wait between attempts.
type Backoff struct {
	Policy          eventingv1alpha2.BackoffPolicy
	Delay, MaxDelay time.Duration
}

// StartFrom is a position in the stream. The zero value is "from now on".
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

// Ahead is the number of events that are held in addition to those in flight: as many as quick sinks take in the time from an
// acknowledgement to the next events.
const Ahead = 128

// leastShared is the smallest limit of deliveries that replicas divide: each of so many has one at a time then.
const leastShared = 8

// Ahead returns how many events the replicas of the data plane may hold in addition to those in flight, so that a sink need
// not wait for the way from an acknowledgement to the next event. The server bounds both together, and replicas divide the
// deliveries among themselves. It is 0 where the server bounds the deliveries alone: where they are few or in order.
func (r Route) Ahead() int {
	if r.MaxInFlight < leastShared || r.Delivery.OrderedBy != "" || r.OfDeadLetters {
		return 0
	}
	return Ahead
}

// Share returns how many deliveries one of several replicas may have in flight, and how many events it may hold in addition. It is for
// routes with something Ahead.
func (r Route) Share(replicas int) (deliveries, held int) {
	replicas = max(replicas, 1)
	return max(r.MaxInFlight/replicas, 1), r.Ahead() / replicas
}
