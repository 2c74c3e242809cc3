package dispatchtest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/never"
)

func drains(t *testing.T, b *bench) {
	t.Helper()
	release := make(chan struct{})
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		<-release
		return Status(http.StatusOK), nil
	})
	stop := b.start(t, sink)
	b.Publish(t, Events(10)...)
	require.Eventually(t, func() bool { return sink.Busy() == 4 }, timeout, tick)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	never.Happens(t, func() bool {
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	}, 100*time.Millisecond, tick, "the drain did not wait")
	close(release)
	<-stopped
	require.Len(t, sink.Attempts(), 4)
	b.backlogIs(t, Backlog{Pending: 6})
}

func drainGivesBack(t *testing.T, b *bench) {
	t.Helper()
	b.options.DrainTimeout = 50 * time.Millisecond
	stuck := NewSink(func(ctx context.Context, _ cloudevent.Event, _ int) (dispatch.Answer, error) {
		<-ctx.Done()
		return dispatch.Answer{}, ctx.Err()
	})
	stop := b.start(t, stuck)
	b.Publish(t, Events(4)...)
	require.Eventually(t, func() bool { return stuck.Busy() == 4 }, timeout, tick)
	stop()

	started := time.Now()
	next := NewSink(nil)
	b.start(t, next)
	b.settled(t)
	require.Less(t, time.Since(started), AckWait, "the messages were not given back but left to AckWait")
	require.Equal(t, each(4, 1), next.Attempts())
}

func survivesPanic(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(_ context.Context, _ cloudevent.Event, attempt int) (dispatch.Answer, error) {
		if attempt == 1 {
			panic("a bug")
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(6)...)
	b.settled(t)
	require.Equal(t, each(6, 2), sink.Attempts())
}

func survivesSource(t *testing.T, b *bench) {
	t.Helper()
	failures := 3
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
			if failures--; failures >= 0 {
				return errors.New("no consumer")
			}
			return s.Receive(ctx, stop, each)
		})
	}
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.Equal(t, each(3, 1), sink.Attempts())
}

type sourceFunc func(context.Context, <-chan struct{}, func(dispatch.Message)) error

func (f sourceFunc) Receive(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
	return f(ctx, stop, each)
}
