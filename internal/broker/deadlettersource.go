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
	// MaxLettersPending is how many letters of one Subscription may wait for another
	// attempt before they hold up further ones: letters wait in their consumer,
	// because there is no other stream for them to go to.
	MaxLettersPending = 10_000
	// maxLettersHeld is about how many letters one source hands out before some are
	// settled, so that memory does not depend on how many wait.
	maxLettersHeld = 64
)

// LetterSource receives the dead letters of one Subscription for a sink of their own,
// as Source does the events. Its durable consumer on DeadLetterStream has the name of
// the Subscription's. A letter that is settled stays in the stream.
type LetterSource struct {
	source *Source
	held   atomic.Int64
	freed  chan struct{} // a note that there is room again
}

// NewLetterSource returns a source of a Subscription's dead letters.
func NewLetterSource(c *Conn, subscription types.NamespacedName, maxInFlight int) *LetterSource {
	consumer := routing.ConsumerName(subscription.Namespace, subscription.Name)
	return &LetterSource{
		source: NewSource(c, DeadLetterStream, consumer, subscription, maxInFlight),
		freed:  make(chan struct{}, 1),
	}
}

// Within is Source.Within for letters.
func (s *LetterSource) Within(room Room) *LetterSource {
	s.source.Within(room)
	return s
}

// Receive is Source.Receive for letters. While too many are held it receives none.
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

// awaitRoom reports false when it was told to stop.
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

// Attempt counts deliveries of the letter, and not the attempts that its event had.
func (m *LetterMessage) Attempt() int { return int(m.metadata.NumDelivered) }

// Ack says that the letter has reached its sink. It is kept nevertheless.
func (m *LetterMessage) Ack(ctx context.Context) error {
	defer m.free.Do(m.release)
	return m.Message.Ack(ctx)
}

// Retry asks for another delivery after the delay. The letter waits where it is.
func (m *LetterMessage) Retry(ctx context.Context, delay time.Duration) error {
	return m.Return(ctx, delay)
}

// Return is the same for a delivery that has not begun.
func (m *LetterMessage) Return(ctx context.Context, delay time.Duration) error {
	defer m.free.Do(m.release)
	return m.Message.Return(ctx, delay)
}

// Reject ends the deliveries of the letter, which is kept.
func (m *LetterMessage) Reject(ctx context.Context, reason string) error {
	defer m.free.Do(m.release)
	return m.Message.Reject(ctx, reason)
}

// release makes room, whether or not the server learns of the settlement: what it
// does not learn of it delivers again.
func (m *LetterMessage) release() {
	if m.source.held.Add(-1) > maxLettersHeld/2 {
		return
	}
	select {
	case m.source.freed <- struct{}{}:
	default:
	}
}
