package dispatchtest

import (
	"context"
	"errors"
	"net/http"
	"sync"
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
