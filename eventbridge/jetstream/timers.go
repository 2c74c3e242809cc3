package jetstream

import (
	"context"
	"time"

	"github.com/rouse-run/rouse/eventbridge/timers"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// TimerStore keeps what is due later. It implements timers.Store.
type TimerStore struct {
	*broker.Conn

	publisher *broker.Publisher
	clock     *broker.ServerClock
}

// NewTimerStore returns a TimerStore. It creates no streams: the controller does.
func NewTimerStore(conn *broker.Conn, publisher *broker.Publisher) *TimerStore {
	return &TimerStore{Conn: conn, publisher: publisher, clock: broker.NewServerClock(conn)}
}

// Clock implements timers.Store.
func (s *TimerStore) Clock(ctx context.Context) { s.clock.Keep(ctx) }

// Now implements timers.Store.
func (s *TimerStore) Now() (time.Time, bool) {
	select {
	case <-s.clock.Ready():
		return s.clock.Now(), true
	default:
		return time.Time{}, false
	}
}

// Cursor implements timers.Store.
func (s *TimerStore) Cursor(ctx context.Context, uid string) (timers.Cursor, error) {
	cursor, err := s.Conn.Cursor(ctx, uid)
	return timers.Cursor(cursor), err
}

// StoreCursor implements timers.Store.
func (s *TimerStore) StoreCursor(ctx context.Context, uid string, cursor timers.Cursor) (timers.Cursor, error) {
	stored, err := s.Conn.StoreCursor(ctx, uid, broker.Cursor(cursor))
	return timers.Cursor(stored), err
}

// WatchCursors implements timers.Store.
func (s *TimerStore) WatchCursors(ctx context.Context, apply func(uid string, cursor timers.Cursor)) error {
	return s.Conn.WatchCursors(ctx, func(uid string, cursor broker.Cursor) { apply(uid, timers.Cursor(cursor)) })
}

// Delay implements timers.Store.
func (s *TimerStore) Delay(ctx context.Context, ev *cloudevent.Event, due time.Time) (timers.Delayed, error) {
	stored, err := s.publisher.Delay(ctx, ev, due)
	return timers.Delayed(stored), err
}

// DelayedID implements timers.Store.
func (s *TimerStore) DelayedID(ev *cloudevent.Event) (string, error) { return broker.DelayedID(ev) }

// DelayedEvents implements timers.Store.
func (s *TimerStore) DelayedEvents(ctx context.Context) ([]timers.Delayed, error) {
	stored, err := s.Conn.DelayedEvents(ctx, "")
	all := make([]timers.Delayed, len(stored))
	for i := range stored {
		all[i] = timers.Delayed(stored[i])
	}
	return all, err
}

// LoadDelayed implements timers.Store.
func (s *TimerStore) LoadDelayed(ctx context.Context, d timers.Delayed) (*cloudevent.Event, error) {
	return s.Conn.LoadDelayed(ctx, broker.Delayed(d))
}

// DeleteDelayed implements timers.Store.
func (s *TimerStore) DeleteDelayed(ctx context.Context, d timers.Delayed) error {
	return s.Conn.DeleteDelayed(ctx, broker.Delayed(d))
}

// WatchDelayed implements timers.Store.
func (s *TimerStore) WatchDelayed(ctx context.Context, apply func(timers.Delayed)) error {
	return s.Conn.WatchDelayed(ctx, func(d broker.Delayed) { apply(timers.Delayed(d)) })
}
