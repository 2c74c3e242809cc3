package broker

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// maxLettersPending is how many letters of one Subscription may be held by all
// sources together, or wait for another attempt.
const maxLettersPending = 1000

// DeadLetterConsumer is the durable consumer on DeadLetterStream that brings the
// dead letters of a Subscription to its sink for them. It starts with the oldest
// letter that is kept, so that none is missed however late it is made. Settled
// letters stay in the stream.
func DeadLetterConsumer(subscription types.NamespacedName) Consumer {
	return Consumer{
		Name:          routing.ConsumerName(subscription.Namespace, subscription.Name),
		Description:   subscription.String(),
		Subjects:      []string{deadLetterSubject(subscription)},
		StartFrom:     StartFrom{Policy: StartAll},
		MaxAckPending: maxLettersPending,
	}
}

// LetterSource receives the dead letters of one Subscription, as Source does the
// events. Its consumer is DeadLetterConsumer.
type LetterSource struct{ source *Source }

// NewLetterSource returns a source of a Subscription's dead letters.
func NewLetterSource(c *Conn, subscription types.NamespacedName, maxInFlight int) *LetterSource {
	consumer := routing.ConsumerName(subscription.Namespace, subscription.Name)
	return &LetterSource{NewSource(c, DeadLetterStream, consumer, subscription, maxInFlight)}
}

// Receive is Source.Receive for letters.
func (s *LetterSource) Receive(ctx context.Context, stop <-chan struct{}, each func(*LetterMessage)) error {
	return s.source.Receive(ctx, stop, func(m *Message) { each(&LetterMessage{m}) })
}

// LetterMessage is one delivery of a dead letter, whose event has the extensions
// that say why it is one.
type LetterMessage struct{ *Message }

// Attempt counts deliveries of the letter, and not the attempts that its event had.
func (m *LetterMessage) Attempt() int { return int(m.metadata.NumDelivered) }

// Retry asks for another delivery after the delay. The letter waits where it is: it
// came from no stream of events that it could go back to.
func (m *LetterMessage) Retry(ctx context.Context, delay time.Duration) error {
	return m.Return(ctx, delay)
}
