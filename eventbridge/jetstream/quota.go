package jetstream

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// Use implements quota.Stream.
func (s *Store) Use(ctx context.Context) (quota.Use, error) {
	use, err := s.conn.Use(ctx, s.stream)
	return quota.Use{
		Amount: quota.Amount{Events: use.Events, Bytes: int64(use.Bytes)},
		Max:    quota.Amount{Events: uint64(use.MaxPerSubject), Bytes: use.MaxBytes},
	}, err
}

// Waiting implements quota.Stream.
func (s *Store) Waiting(ctx context.Context) ([]quota.Held, error) {
	consumers, err := s.conn.Consumers(ctx, s.stream)
	if err != nil {
		return nil, err
	}
	held := make([]quota.Held, 0, len(consumers))
	for _, consumer := range consumers {
		if name, ours := broker.SubscriptionOf(consumer); ours {
			held = append(held, quota.Held{
				Subscription: name, UID: types.UID(consumer.Metadata[broker.MetadataUID]), Ordered: consumer.Ordered,
				Amount: quota.Amount{Events: consumer.Backlog.Total()},
			})
		}
	}
	return held, nil
}

// Bytes implements quota.Stream.
func (s *Store) Bytes(ctx context.Context, subscription types.NamespacedName, enough int64) (int64, error) {
	return s.conn.HeldBytes(ctx, s.stream, routing.ConsumerName(subscription.Namespace, subscription.Name), enough)
}
