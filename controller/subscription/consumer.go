package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// ackWait is how long a delivery may go without a sign of life.
	ackWait = 30 * time.Second
	// orderedFactor and orderedRoom are room for events that wait for others of their
	// key, so that they do not hold up those of other keys.
	orderedFactor = 10
	orderedRoom   = 100
	// brokerDelay is how soon NATS is tried again.
	brokerDelay = 5 * time.Second
	// limitDelay is how soon it is tried whether a limit was raised.
	limitDelay = 30 * time.Second
	// badRequest is JetStream's code for what it will never accept.
	badRequest = 400
)

// Metadata of a consumer, by which its Subscription is found again.
const (
	metadataNamespace = "rouse.run/namespace"
	metadataName      = "rouse.run/name"
	metadataSink      = "rouse.run/sink"
)

// consumersRemedy is what to do when NATS takes no further consumer.
const consumersRemedy = "every Subscription needs a consumer: delete Subscriptions that nobody needs, or raise max_consumers " +
	"of the stream or of its account in NATS"

// Consumers is where the durable consumers live.
type Consumers interface {
	EnsureConsumer(ctx context.Context, stream string, consumer broker.Consumer) error
	DeleteConsumer(ctx context.Context, stream, name string) error
	Consumers(ctx context.Context, stream string) ([]broker.Consumer, error)
	PurgeRetries(ctx context.Context, subscription types.NamespacedName) error
	DeadLetterCounts(ctx context.Context) (map[types.NamespacedName]uint64, error)
}

// consumerFor is the consumer that a route needs.
func consumerFor(route routing.Route) broker.Consumer {
	return broker.Consumer{
		Name:        route.Consumer,
		Description: route.Subscription.String(),
		Subjects:    route.Subjects,
		Metadata: map[string]string{
			metadataNamespace: route.Subscription.Namespace,
			metadataName:      route.Subscription.Name,
			metadataSink:      routing.ShownSink(route.Sink),
		},
		StartFrom:     startOf(route),
		AckWait:       ackWait,
		MaxAckPending: maxAckPending(route),
		Ordered:       route.Delivery.OrderedBy != "",
	}
}

// startOf is the oldest letter that is kept for a sink of dead letters, so that it
// misses none however late it is named.
func startOf(route routing.Route) broker.StartFrom {
	if route.OfDeadLetters {
		return broker.StartFrom{Policy: broker.StartAll}
	}
	return startFrom(route.Delivery.StartFrom)
}

// maxAckPending lets the server bound what is in flight over all bridges.
func maxAckPending(route routing.Route) int {
	switch {
	case route.OfDeadLetters:
		return broker.MaxLettersPending
	case route.Delivery.OrderedBy == "":
		return route.MaxInFlight
	default:
		return max(orderedRoom, orderedFactor*route.MaxInFlight)
	}
}

func startFrom(start routing.StartFrom) broker.StartFrom {
	switch start.Position {
	case eventingv1alpha2.StartAll:
		return broker.StartFrom{Policy: broker.StartAll}
	case eventingv1alpha2.StartTime:
		return broker.StartFrom{Policy: broker.StartTime, Time: start.Time}
	case eventingv1alpha2.StartSequence:
		return broker.StartFrom{Policy: broker.StartSequence, Sequence: start.Sequence}
	default:
		return broker.StartFrom{}
	}
}

// subscriptionOf is the Subscription that a consumer was made for, if it was
// made by this controller.
func subscriptionOf(consumer broker.Consumer) (types.NamespacedName, bool) {
	key := types.NamespacedName{Namespace: consumer.Metadata[metadataNamespace], Name: consumer.Metadata[metadataName]}
	ours := key.Namespace != "" && key.Name != "" && consumer.Name == routing.ConsumerName(key.Namespace, key.Name)
	return key, ours
}

// classify tells what will never work from what may work later.
func classify(err error) error {
	var api *broker.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, broker.ErrOverlappingSubjects):
		return kube.Stalled(err)
	case errors.Is(err, broker.ErrNotConnected), errors.Is(err, broker.ErrTimeout), errors.Is(err, broker.ErrNoRoom):
		return kube.Waiting(err, brokerDelay)
	case errors.Is(err, broker.ErrTooManyConsumers):
		return kube.Waiting(fmt.Errorf("%w; %s", err, consumersRemedy), limitDelay)
	case errors.Is(err, broker.ErrNoStream):
		return kube.Waiting(fmt.Errorf("%w; it is made when NATS has room for it", err), brokerDelay)
	case errors.As(err, &api) && api.Code == badRequest:
		return kube.Stalled(err)
	default:
		return err
	}
}
