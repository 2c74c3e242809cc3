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
	// MaxLettersPending is how many dead letters of one Subscription may wait for another
	// attempt before they hold up further ones: dead letters wait in their consumer,
	// because there is no other stream for them to go to.
	MaxLettersPending = 10_000
	// maxDeadLettersHeld is about how many dead letters one source hands out before some are
	// settled, so that memory does not depend on how many wait.
	maxLettersHeld = 64
)

// LetterSource receives the dead letters of one Subscription for a sink of their own,
// as Source does the events. Its durable consumer on DeadLetterStream has the name of
// the Subscription's. A dead letter that is settled stays in the stream.
type LetterSource struct {
	source *Source
	held   atomic.Int64
	freed  chan struct{} // has a value when capacity was freed
}

// NewLetterSource returns a source of a Subscription's dead letters.
func NewLetterSource(c *Conn, subscription types.NamespacedName, maxInFlight int) *LetterSource {
	consumer := routing.ConsumerName(subscription.Namespace, subscription.Name)
	return &LetterSource{
		source: NewSource(c, DeadLetterStream, consumer, subscription, maxInFlight),
		freed:  make(chan struct{}, 1),
	}
}

// Within is Source.Within for dead letters.
func (s *LetterSource) Within(budget Room) *LetterSource {
	s.source.Within(budget)
	return s
}

// Receive is Source.Receive for dead letters. While too many are held it receives none.
func (s *LetterSource) Receive(ctx context.Context, stop <-chan struct{}, each func(*LetterMessage)) error {
	for {
		receiving, full := context.WithCancel(ctx)
		err := s.source.Receive(receiving, stop, func(m *Message) {
			if s.held.Add(1) >= maxLettersHeld {
				full() // and hand back what else has come
			}
			each(&LetterMessage{Message: m, source: s})
		})
		full()
		if err != nil || !s.awaitRoom(ctx, stop) {
			return err
		}
	}
}

// awaitCapacity reports false when it was stopped.
func (s *LetterSource) awaitRoom(ctx context.Context, stop <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		default:
		}
		if s.held.Load() <= maxLettersHeld/2 {
			return true
		}
		select {
		case <-ctx.Done():
		case <-stop:
		case <-s.freed:
		}
	}
}

// LetterMessage is one delivery of a dead letter.
type LetterMessage struct {
	*Message

	source *LetterSource
	free   sync.Once
}

// Attempt counts deliveries of the dead letter, and not the attempts that its event had.
func (m *LetterMessage) Attempt() int { return int(m.metadata.NumDelivered) }

// Ack confirms that the dead letter has reached its sink. It is kept nevertheless.
func (m *LetterMessage) Ack(ctx context.Context) error {
	defer m.free.Do(m.release)
	return m.Message.Ack(ctx)
}

// Retry asks for another delivery after the delay. The dead letter waits in its consumer.
func (m *LetterMessage) Retry(ctx context.Context, delay time.Duration) error {
	return m.Return(ctx, delay)
}

// Return is the same for a delivery that has not begun.
func (m *LetterMessage) Return(ctx context.Context, delay time.Duration) error {
	defer m.free.Do(m.release)
	return m.Message.Return(ctx, delay)
}

// Reject ends the deliveries of the dead letter, which is kept.
func (m *LetterMessage) Reject(ctx context.Context, reason string) error {
	defer m.free.Do(m.release)
	return m.Message.Reject(ctx, reason)
}

// release frees capacity, whether or not the server receives the settlement: what it
// does not receive it delivers again.
func (m *LetterMessage) release() {
	if m.source.held.Add(-1) > maxLettersHeld/2 {
		return
	}
	select {
	case m.source.freed <- struct{}{}:
	default:
	}
}
