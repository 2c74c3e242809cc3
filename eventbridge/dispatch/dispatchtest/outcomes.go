package dispatchtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

func deliversOnce(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(50)...)
	b.settled(t)
	require.Equal(t, each(50, 1), sink.Attempts())
	require.Empty(t, b.StoredDeadLetters(t))
}

func retries(t *testing.T, b *bench) {
	t.Helper()
	var mu sync.Mutex
	var times []time.Time
	sink := NewSink(func(_ context.Context, _ cloudevent.Event, attempt int) (dispatch.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
		if attempt < 3 {
			return Status(http.StatusInternalServerError), nil
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Equal(t, each(1, 3), sink.Attempts())
	require.GreaterOrEqual(t, times[1].Sub(times[0]), 40*time.Millisecond)
	require.GreaterOrEqual(t, times[2].Sub(times[1]), 80*time.Millisecond)
	require.Empty(t, b.StoredDeadLetters(t))
}

func honoursRetryAfter(t *testing.T, b *bench) {
	t.Helper()
	var mu sync.Mutex
	var times []time.Time
	sink := NewSink(func(_ context.Context, _ cloudevent.Event, attempt int) (dispatch.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
		if attempt == 1 {
			return dispatch.Answer{Status: http.StatusTooManyRequests, RetryAfter: 500 * time.Millisecond}, nil
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Len(t, times, 2)
	require.GreaterOrEqual(t, times[1].Sub(times[0]), 500*time.Millisecond)
}

func refuses(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(_ context.Context, ev cloudevent.Event, _ int) (dispatch.Answer, error) {
		if ev.ID == "1" {
			return dispatch.Answer{Status: http.StatusBadRequest, Excerpt: "no such order"}, nil
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.Equal(t, each(3, 1), sink.Attempts())
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, StoredDeadLetter{ID: "1", DeadLetter: dispatch.DeadLetter{
		Reason: failure.SinkRejected, Attempts: 1, Status: http.StatusBadRequest, Excerpt: "no such order",
	}}, deadLetters[0])
}

func exhausts(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		return dispatch.Answer{}, errors.New("connection reset")
	})
	b.start(t, sink)
	b.Publish(t, Events(2)...)
	b.settled(t)
	require.Equal(t, each(2, 4), sink.Attempts())
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 2)
	require.Equal(t, dispatch.DeadLetter{Reason: failure.AttemptsExhausted, Attempts: 4}, deadLetters[0].DeadLetter)
}

func deadLettersGarbage(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(nil)
	b.start(t, sink)
	b.PublishGarbage(t)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Equal(t, each(1, 1), sink.Attempts())
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, failure.NotACloudEvent, deadLetters[0].Reason)
}

func retriesUntilDeadLetterIsStored(t *testing.T, b *bench) {
	t.Helper()
	b.refuseDeadLetters(2)
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		return Status(http.StatusGone), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Equal(t, each(1, 3), sink.Attempts())
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, 3, deadLetters[0].Attempts)
}

// refuseDeadLetters has messages refuse to store their dead letters, so many times in all.
func (b *bench) refuseDeadLetters(times int32) {
	left := &atomic.Int32{}
	left.Store(times)
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
			return s.Receive(ctx, stop, func(msg dispatch.Message) { each(&refusing{Message: msg, left: left}) })
		})
	}
}

// refusing is a message whose dead letter cannot be stored a number of times.
type refusing struct {
	dispatch.Message

	left *atomic.Int32
}

// StoreDeadLetter implements dispatch.Message.
func (r *refusing) StoreDeadLetter(ctx context.Context, deadLetter dispatch.DeadLetter) error {
	if r.left.Add(-1) >= 0 {
		return errors.New("no space left")
	}
	return r.Message.StoreDeadLetter(ctx, deadLetter)
}

// journal notes what is published.
type journal struct {
	mu        sync.Mutex
	published []*cloudevent.Event
	refuse    func(n int) error // for the n-th call, from 1; may be nil
	calls     int
}

func (j *journal) Publish(_ context.Context, reply *cloudevent.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls++
	if j.refuse != nil {
		if err := j.refuse(j.calls); err != nil {
			return err
		}
	}
	j.published = append(j.published, reply)
	return nil
}

func replying() *Sink {
	return NewSink(func(_ context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error) {
		return dispatch.Answer{Status: http.StatusOK, Reply: &cloudevent.Event{
			ID: fmt.Sprintf("reply-%s-%d", ev.ID, attempt), Source: "pricing", Type: "order.priced.v1",
		}}, nil
	})
}

func publishesReplies(t *testing.T, b *bench) {
	t.Helper()
	written := &journal{}
	b.replies = written
	b.start(t, replying())
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.Len(t, written.published, 3)
	for _, reply := range written.published {
		require.Equal(t, "1", reply.Extension("rousehops"))
		require.Equal(t, "reply-"+reply.Extension("rousecause")+"-1", reply.ID)
	}
}

func repeatsReplies(t *testing.T, b *bench) {
	t.Helper()
	written := &journal{refuse: func(n int) error {
		if n == 1 {
			return errors.New("no connection")
		}
		return nil
	}}
	b.replies = written
	sink := replying()
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Len(t, written.published, 1)
	require.Equal(t, each(1, 2), sink.Attempts())
}

func ignoresInvalidReplies(t *testing.T, b *bench) {
	t.Helper()
	b.replies = &journal{refuse: func(int) error { return fmt.Errorf("%w: no type", dispatch.ErrUnpublishable) }}
	sink := replying()
	b.start(t, sink)
	b.Publish(t, Events(2)...)
	b.settled(t)
	require.Equal(t, each(2, 1), sink.Attempts())
	require.Empty(t, b.StoredDeadLetters(t))
}

func endsChains(t *testing.T, b *bench) {
	t.Helper()
	written := &journal{}
	b.replies = written
	events := Events(2)
	events[0].SetExtension("rousehops", "2")
	events[1].SetExtension("rousehops", "3")
	b.start(t, replying())
	b.Publish(t, events...)
	b.settled(t)
	require.Len(t, written.published, 1)
	require.Equal(t, "3", written.published[0].Extension("rousehops"))
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, failure.TooManyReplies, deadLetters[0].Reason)
}

func endsChainsOfEmittedEvents(t *testing.T, b *bench) {
	t.Helper()
	events := Events(3)
	events[0].SetExtension("rousehops", "3")
	events[1].SetExtension("rousehops", "4")
	events[2].SetExtension("rousehops", "99999999999999999999")
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, events...)
	b.settled(t)
	require.Equal(t, map[string]int{events[0].ID: 1}, sink.Attempts(), "what has gone too far is not delivered")
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 2)
	require.Equal(t, failure.TooManyReplies, deadLetters[0].Reason)
}

type filterFunc func(*cloudevent.Event) (bool, error)

func (f filterFunc) Match(ev *cloudevent.Event) (bool, error) { return f(ev) }

func filters(t *testing.T, b *bench) {
	t.Helper()
	b.filter = filterFunc(func(ev *cloudevent.Event) (bool, error) {
		if ev.ID == "2" {
			return true, errors.New("no such field")
		}
		return ev.ID == "1", nil
	})
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(4)...)
	b.settled(t)
	require.Equal(t, map[string]int{"1": 1}, sink.Attempts())
	require.Empty(t, b.StoredDeadLetters(t))
}
