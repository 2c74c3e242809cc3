package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// brokerDelay is how soon NATS is tried again.
	brokerDelay = 5 * time.Second
	// deletionDelay is how soon a deleted stream or consumer is created again.
	deletionDelay = 250 * time.Millisecond
	// limitDelay is how soon to check again whether a limit was raised.
	limitDelay = 30 * time.Second
	// badRequest is JetStream's code for what it will never accept.
	badRequest = 400
)

// consumersRemedy is what to do when NATS takes no further consumer.
const consumersRemedy = "every Subscription needs a consumer: delete unused Subscriptions, or raise max_consumers " +
	"of the stream or of its account in NATS"

// DeadLetterStats counts stored and dropped dead letters.
type DeadLetterStats interface {
	DeadLetterCounts(ctx context.Context) (map[types.NamespacedName]uint64, error)
	DroppedDeadLetters(ctx context.Context) (map[types.NamespacedName]bool, error)
}

// Consumers is where the durable consumers live.
type Consumers interface {
	DeadLetterStats

	EnsureConsumer(ctx context.Context, stream string, consumer broker.Consumer) error
	DeleteConsumer(ctx context.Context, stream, name string) error
	Consumers(ctx context.Context, stream string) ([]broker.Consumer, error)
	WaitingRetries(ctx context.Context) (map[types.NamespacedName]uint64, error)
	PurgeRetries(ctx context.Context, subscription types.NamespacedName) error
}

// classify distinguishes what will never work from what may work later.
func classify(err error) error {
	var api *broker.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, broker.ErrOverlappingSubjects):
		return kube.Stalled(err)
	case errors.Is(err, broker.ErrBeingDeleted):
		return kube.Waiting(err, deletionDelay)
	case errors.Is(err, broker.ErrNotConnected), errors.Is(err, broker.ErrTimeout), errors.Is(err, broker.ErrInsufficientResources):
		return kube.Waiting(err, brokerDelay)
	case errors.Is(err, errEventingManager):
		return kube.Waiting(err, sweepInterval)
	case errors.Is(err, broker.ErrTooManyConsumers):
		return kube.Waiting(fmt.Errorf("%w; %s", err, consumersRemedy), limitDelay)
	case errors.Is(err, broker.ErrNoStream):
		return kube.Waiting(fmt.Errorf("%w; it is created when NATS has capacity for it", err), brokerDelay)
	case errors.As(err, &api) && api.Code == badRequest:
		return kube.Stalled(err)
	default:
		return err
	}
}
