package dispatchtest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/never"
)

func closedGate(t *testing.T, b *bench) {
	t.Helper()
	b.gate = NewGate(false)
	var received atomic.Int32
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
			received.Add(1)
			return s.Receive(ctx, stop, each)
		})
	}
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(5)...)
	never.Happens(t, func() bool { return received.Load() > 0 }, 100*time.Millisecond, tick)
	b.backlogIs(t, Backlog{Pending: 5})

	b.gate.Open()
	b.settled(t)
	require.Equal(t, each(5, 1), sink.Attempts())
}

func closingGate(t *testing.T, b *bench) {
	t.Helper()
	waiting, left := make(chan struct{}, 100), make(chan struct{}, 100)
	attempts := make(chan int, 10)
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
			waiting <- struct{}{}
			defer func() { left <- struct{}{} }()
			return s.Receive(ctx, stop, func(m dispatch.Message) {
				attempts <- m.Attempt()
				each(m)
			})
		})
	}
	sink := NewSink(nil)
	b.start(t, sink)
	<-waiting
	b.gate.Close()
	<-left
	// The broker hears of it a moment later. What comes in between is given back.
	never.Happens(t, func() bool { return sink.Busy() > 0 }, 200*time.Millisecond, tick)
	b.Publish(t, Events(1)...)
	b.backlogIs(t, Backlog{Pending: 1})
	never.Happens(t, func() bool { return b.Backlog(t).Pending != 1 }, 150*time.Millisecond, tick,
		"a message was received through a closed gate")
	b.gate.Open()
	b.settled(t)
	require.Equal(t, 1, <-attempts, "the closed gate cost an attempt")
}

func busyBehindClosedGate(t *testing.T, b *bench) {
	t.Helper()
	b.maxInFlight = 1 // of the four that the broker gives out
	release := make(chan struct{})
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		<-release
		return Status(http.StatusOK), nil
	})
	b.Publish(t, Events(3)...)
	b.start(t, sink)
	require.Eventually(t, func() bool { return sink.Busy() == 1 }, timeout, tick)
	b.backlogIs(t, Backlog{AckPending: 3})
	b.gate.Close()
	b.holds(t, 1) // the one that is being delivered; the others were given back
	close(release)
	b.left(t, 2)
	require.Len(t, sink.Attempts(), 1)
	b.gate.Open()
	b.settled(t)
	require.Equal(t, each(3, 1), sink.Attempts())
}

func outlivesGoneSink(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(_ context.Context, _ cloudevent.Event, attempt int) (dispatch.Answer, error) {
		if attempt <= b.options.MaxAttempts+2 {
			return dispatch.Answer{}, dispatch.ErrSinkGone
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Equal(t, each(1, b.options.MaxAttempts+3), sink.Attempts())
	require.Empty(t, b.StoredDeadLetters(t))
}
