package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// routeAckWait bounds how long a delivery may go without a sign of life.
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

// ConsumerOf returns the consumer that a route needs.
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

// SubscriptionOf returns the Subscription of a consumer that ConsumerOf made, and false for
// any other.
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

// Progress shows whether a consumer moves. If two samples differ in Waiting at most, the
// consumer stood still between them.
type Progress struct {
	Created   time.Time // a recreated one has another
	Delivered uint64    // deliveries, repeats included
	Settled   uint64    // position in the stream up to which everything is settled
	Waiting   int       // requests that stand for messages
	Paused    bool      // by an administrator of NATS
	Replicas  int       // servers that keep it
}

// Consumers lists the stream's consumers, including those of other clients.
func (c *Conn) Consumers(ctx context.Context, stream string) ([]Consumer, error) {
	if !c.Connected() {
		return nil, fmt.Errorf("list consumers: %w", ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", mapError(err))
	}
	consumers := make([]Consumer, 0, handle.CachedInfo().State.Consumers)
	lister := handle.ListConsumers(ctx)
	for info := range lister.Info() {
		consumers = append(consumers, listed(info))
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("list consumers: %w", mapError(err))
	}
	return consumers, nil
}

func listed(info *jetstream.ConsumerInfo) Consumer {
	return Consumer{
		Name:          info.Name,
		Description:   info.Config.Description,
		Subjects:      subjects(info.Config),
		Metadata:      ownMetadata(info.Config.Metadata),
		AckWait:       info.Config.AckWait,
		MaxAckPending: info.Config.MaxAckPending,
		Ordered:       ordered(info.Config),
		Backlog:       Backlog{Pending: info.NumPending, AckPending: uint64(info.NumAckPending)},
		Progress: Progress{
			Created:   info.Created,
			Delivered: info.Delivered.Consumer,
			Settled:   info.AckFloor.Stream,
			Waiting:   info.NumWaiting,
			Paused:    info.Paused,
			Replicas:  replicas(info.Cluster),
		},
		Received: info.PushBound || info.NumWaiting > 0,
		listed:   info.Config,
	}
}

func replicas(cluster *jetstream.ClusterInfo) int {
	if cluster == nil || cluster.Leader == "" {
		return 1
	}
	return 1 + len(cluster.Replicas)
}

// Matches reports whether a consumer that was listed is as this one ought to be. If not,
// EnsureConsumer makes it so.
func (c Consumer) Matches(seen Consumer) bool {
	return c.matches(seen.listed) && seen.listed.Metadata[metadataStart] == c.StartFrom.String() && !needsRecreation(seen.listed)
}

// ForeignConsumers are the consumers, among those of a stream of events, that belong to no Subscription. They hold what they have
// not settled, as those of Subscriptions do.
func ForeignConsumers(consumers []Consumer) []Consumer {
	var found []Consumer
	for _, consumer := range consumers {
		_, ours := SubscriptionOf(consumer)
		_, isStandby := consumer.Metadata[metadataStarted]
		if !ours && !isStandby {
			found = append(found, consumer)
		}
	}
	return found
}

// MoveLeader has another server of the cluster lead a consumer. Nothing is lost by it; pull
// requests have to be sent again, which sources do by themselves.
func (c *Conn) MoveLeader(ctx context.Context, stream, consumer string) error {
	if err := c.moveLeader(ctx, stream, consumer); err != nil {
		return fmt.Errorf("move the leader of consumer %q: %w", consumer, err)
	}
	return nil
}

func (c *Conn) moveLeader(ctx context.Context, stream, consumer string) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	var moved struct{}
	return mapError(c.callAPI(ctx, "$JS.API.CONSUMER.LEADER.STEPDOWN."+stream+"."+consumer, nil, &moved))
}
