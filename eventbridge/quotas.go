package eventbridge

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// Use implements quota.Stream.
func (j *JetStream) Use(ctx context.Context) (quota.Use, error) {
	use, err := j.conn.Use(ctx, j.stream)
	return quota.Use{
		Amount: quota.Amount{Events: use.Events, Bytes: int64(use.Bytes)},
		Max:    quota.Amount{Events: uint64(use.MaxPerSubject), Bytes: use.MaxBytes},
	}, err
}

// Waiting implements quota.Stream.
func (j *JetStream) Waiting(ctx context.Context) ([]quota.Held, error) {
	consumers, err := j.conn.Consumers(ctx, j.stream)
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
func (j *JetStream) Bytes(ctx context.Context, subscription types.NamespacedName, enough int64) (int64, error) {
	return j.conn.HeldBytes(ctx, j.stream, routing.ConsumerName(subscription.Namespace, subscription.Name), enough)
}

// overQuota is how a dispatcher asks for the limit of its Subscription.
type overQuota struct{ *quota.Limit }

// Over implements dispatch.Quota.
func (q overQuota) Over(msg dispatch.Message) bool {
	return q.Limit.Over(msg.Pending())
}
