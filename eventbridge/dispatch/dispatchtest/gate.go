package dispatchtest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
)

func closedGate(t *testing.T, b *bench) {
	t.Helper()
	b.gate = NewGate(false)
	fetches := make(chan struct{}, 100)
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, limit int) ([]dispatch.Message, error) {
			fetches <- struct{}{}
			return s.Fetch(ctx, limit)
		})
	}
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(5)...)
	require.Never(t, func() bool { return len(fetches) > 0 }, 100*time.Millisecond, tick)
	b.backlogIs(t, 5, 0)

	b.gate.Open()
	b.settled(t)
	require.Equal(t, each(5, 1), sink.Attempts())
}

func closingGate(t *testing.T, b *bench) {
	t.Helper()
	waiting, left := make(chan struct{}, 100), make(chan struct{}, 100)
	attempts := make(chan int, 10)
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, limit int) ([]dispatch.Message, error) {
			waiting <- struct{}{}
			messages, err := s.Fetch(ctx, limit)
			for _, msg := range messages {
				attempts <- msg.Attempt()
			}
			left <- struct{}{}
			return messages, err
		})
	}
	sink := NewSink(nil)
	b.start(t, sink)
	<-waiting
	b.gate.Close()
	<-left
	// The broker hears of it a moment later. What comes in between costs an attempt, but no more.
	require.Never(t, func() bool { return sink.Busy() > 0 }, 200*time.Millisecond, tick)
	b.Publish(t, Events(1)...)
	b.backlogIs(t, 1, 0)
	require.Never(t, func() bool {
		pending, _ := b.Backlog(t)
		return pending != 1
	}, 150*time.Millisecond, tick, "a message was fetched through a closed gate")
	b.gate.Open()
	b.settled(t)
	require.Equal(t, 1, <-attempts, "the closed gate cost an attempt")
}

func busyBehindClosedGate(t *testing.T, b *bench) {
	t.Helper()
	b.maxInFlight = 1
	var fetches atomic.Int32
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, limit int) ([]dispatch.Message, error) {
			fetches.Add(1)
			return s.Fetch(ctx, limit)
		})
	}
	release := make(chan struct{})
	sink := NewSink(func(context.Context, event.Event, int) (dispatch.Answer, error) {
		<-release
		return Status(http.StatusOK), nil
	})
	b.Publish(t, Events(3)...)
	b.start(t, sink)
	require.Eventually(t, func() bool { return sink.Busy() == 1 }, patience, tick)
	before := fetches.Load()
	b.gate.Close()
	close(release)
	b.backlogIs(t, 2, 0)
	require.Never(t, func() bool { return fetches.Load() > before }, 100*time.Millisecond, tick)
	b.gate.Open()
	b.settled(t)
	require.Equal(t, each(3, 1), sink.Attempts())
}

func outlivesGoneSink(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(_ context.Context, _ event.Event, attempt int) (dispatch.Answer, error) {
		if attempt <= b.options.MaxAttempts+2 {
			return dispatch.Answer{}, dispatch.ErrSinkGone
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Equal(t, each(1, b.options.MaxAttempts+3), sink.Attempts())
	require.Empty(t, b.Letters(t))
}
