package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// MaxDeadLettersPending limits how many dead letters of one Subscription may wait for another
	// attempt before they hold up further ones: dead letters wait in their consumer,
	// because there is no other stream for them to go to.
	MaxDeadLettersPending = 10_000
	// maxDeadLettersHeld is about how many dead letters one source hands out before some are
	// settled, so that memory does not depend on how many wait.
	maxDeadLettersHeld = 64
)

// DeadLetterSource receives the dead letters of one Subscription for a sink of their own,
// as Source does the events. Its durable consumer on DeadLetterStream has the name of
// the Subscription's. A dead letter that is settled stays in the stream.
type DeadLetterSource struct {
	source *Source
	held   atomic.Int64
	freed  chan struct{} // has a value when capacity was freed
}

// NewDeadLetterSource returns a source of a Subscription's dead letters.
func NewDeadLetterSource(c *Conn, subscription types.NamespacedName, maxInFlight int) *DeadLetterSource {
	consumer := routing.ConsumerName(subscription.Namespace, subscription.Name)
	return &DeadLetterSource{
		source: NewSource(c, DeadLetterStream, consumer, subscription, maxInFlight),
		freed:  make(chan struct{}, 1),
	}
}

// Within is Source.Within for dead letters.
func (s *DeadLetterSource) Within(budget MemoryBudget) *DeadLetterSource {
	s.source.Within(budget)
	return s
}

// Receive is Source.Receive for dead letters. While too many are held it receives none.
func (s *DeadLetterSource) Receive(ctx context.Context, stop <-chan struct{}, each func(*DeadLetterMessage)) error {
	for {
		receiving, full := context.WithCancel(ctx)
		err := s.source.Receive(receiving, stop, func(m *Message) {
			if s.held.Add(1) >= maxDeadLettersHeld {
				full() // and hand back what else has come
			}
			each(&DeadLetterMessage{Message: m, source: s})
		})
		full()
		if err != nil || !s.awaitCapacity(ctx, stop) {
			return err
		}
	}
}

// awaitCapacity reports false when it was stopped.
func (s *DeadLetterSource) awaitCapacity(ctx context.Context, stop <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		default:
		}
		if s.held.Load() <= maxDeadLettersHeld/2 {
			return true
		}
		select {
		case <-ctx.Done():
		case <-stop:
		case <-s.freed:
		}
	}
}

// DeadLetterMessage is one delivery of a dead letter.
type DeadLetterMessage struct {
	*Message

	source *DeadLetterSource
	free   sync.Once
}

// Attempt counts deliveries of the dead letter, and not the attempts that its event had.
func (m *DeadLetterMessage) Attempt() int { return int(m.metadata.NumDelivered) }

// Ack confirms that the dead letter has reached its sink. It is kept nevertheless.
func (m *DeadLetterMessage) Ack(ctx context.Context) error {
	defer m.free.Do(m.release)
	return m.Message.Ack(ctx)
}

// Retry requests another delivery after the delay. The dead letter waits in its consumer.
func (m *DeadLetterMessage) Retry(ctx context.Context, delay time.Duration) error {
	return m.Return(ctx, delay)
}

// Return is the same for a delivery that has not begun.
func (m *DeadLetterMessage) Return(ctx context.Context, delay time.Duration) error {
	defer m.free.Do(m.release)
	return m.Message.Return(ctx, delay)
}

// Reject ends the deliveries of the dead letter, which is kept.
func (m *DeadLetterMessage) Reject(ctx context.Context, reason string) error {
	defer m.free.Do(m.release)
	return m.Message.Reject(ctx, reason)
}

// release frees capacity, whether or not the server receives the settlement: what it
// does not receive it delivers again.
func (m *DeadLetterMessage) release() {
	if m.source.held.Add(-1) > maxDeadLettersHeld/2 {
		return
	}
	select {
	case m.source.freed <- struct{}{}:
	default:
	}
}
