package broker

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// routeAckWait is how long a delivery may go without a sign of life.
	routeAckWait = 30 * time.Second
	// orderedFactor and orderedMinPending leave capacity for events that wait for others of their
	// key, so that they do not hold up those of other keys.
	orderedFactor     = 10
	orderedMinPending = 100
	orderedMaxPending = 1000
)

// Metadata of a consumer, by which its Subscription is found again.
const (
	MetadataNamespace = "rouse.run/namespace"
	MetadataName      = "rouse.run/name"
	MetadataSink      = "rouse.run/sink"
	// MetadataUID distinguishes it from one that had the same name before.
	MetadataUID = "rouse.run/uid"
)

// ConsumerOf is the consumer that a route needs.
func ConsumerOf(route routing.Route) Consumer {
	metadata := map[string]string{
		MetadataNamespace: route.Subscription.Namespace,
		MetadataName:      route.Subscription.Name,
		MetadataSink:      routing.ShownSink(route.Sink),
	}
	if route.UID != "" {
		metadata[MetadataUID] = string(route.UID)
	}
	return Consumer{
		Name:          route.Consumer,
		Description:   route.Subscription.String(),
		Subjects:      route.Subjects,
		Metadata:      metadata,
		StartFrom:     startOf(route),
		AckWait:       routeAckWait,
		MaxAckPending: maxAckPendingOf(route),
		Ordered:       route.Delivery.OrderedBy != "",
	}
}

// SubscriptionOf is the Subscription that a consumer was made for, if it was made by
// ConsumerOf.
func SubscriptionOf(consumer Consumer) (types.NamespacedName, bool) {
	key := types.NamespacedName{Namespace: consumer.Metadata[MetadataNamespace], Name: consumer.Metadata[MetadataName]}
	ours := key.Namespace != "" && key.Name != "" && consumer.Name == routing.ConsumerName(key.Namespace, key.Name)
	return key, ours
}

// startOf is the oldest dead letter that is kept for a sink of dead letters, so that the sink
// misses none however late it is configured.
func startOf(route routing.Route) StartFrom {
	if route.OfDeadLetters {
		return StartFrom{Policy: StartAll}
	}
	switch start := route.Delivery.StartFrom; start.Position {
	case eventingv1alpha2.StartAll:
		return StartFrom{Policy: StartAll}
	case eventingv1alpha2.StartTime:
		return StartFrom{Policy: StartTime, Time: start.Time}
	case eventingv1alpha2.StartSequence:
		return StartFrom{Policy: StartSequence, Sequence: start.Sequence}
	default:
		return StartFrom{}
	}
}

// maxAckPendingOf lets the server bound what is in flight over all bridges, and what they hold ahead of it.
func maxAckPendingOf(route routing.Route) int {
	switch {
	case route.OfDeadLetters:
		return MaxDeadLettersPending
	case route.Delivery.OrderedBy == "":
		return route.MaxInFlight + route.Ahead()
	default:
		return max(orderedMinPending, min(orderedFactor*route.MaxInFlight, orderedMaxPending))
	}
}
