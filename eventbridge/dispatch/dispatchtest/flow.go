package dispatchtest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/testing/never"
)

func extends(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(ctx context.Context, _ cloudevent.Event, _ int) (dispatch.Answer, error) {
		pause(ctx, AckWait*5/2)
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.start(t, sink) // a second replica would get what is redelivered
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.Equal(t, each(3, 1), sink.Attempts())
}

func boundsInFlight(t *testing.T, b *bench) {
	t.Helper()
	release := make(chan struct{})
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		<-release
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(12)...)
	require.Eventually(t, func() bool { return sink.Busy() == 4 }, timeout, tick)
	b.backlogIs(t, Backlog{Pending: 8, AckPending: 4})
	close(release)
	b.settled(t)
	require.Equal(t, 4, sink.Peak())
	require.Equal(t, each(12, 1), sink.Attempts())
}

func retriesBlockNoOthers(t *testing.T, b *bench) {
	t.Helper()
	b.options.Backoff = dispatch.Backoff{Base: time.Minute, Max: time.Minute}
	sink := NewSink(func(_ context.Context, ev cloudevent.Event, _ int) (dispatch.Answer, error) {
		if ev.ID == "9" {
			return Status(http.StatusOK), nil
		}
		return Status(http.StatusServiceUnavailable), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(10)...)
	require.Eventually(t, func() bool { return len(sink.Attempts()) == 10 }, timeout, tick, "failing events block the others")
	b.backlogIs(t, Backlog{Waiting: 9})
}

func shares(t *testing.T, b *bench) {
	t.Helper()
	first, second := NewSink(slowly), NewSink(slowly)
	b.start(t, first)
	b.start(t, second)
	b.Publish(t, Events(60)...)
	b.settled(t)
	sum := first.Attempts()
	require.NotEmpty(t, sum)
	require.NotEmpty(t, second.Attempts())
	for id, n := range second.Attempts() {
		sum[id] += n
	}
	require.Equal(t, each(60, 1), sum)
}

func conserves(t *testing.T, b *bench) {
	t.Helper()
	const published = 200
	answers := []int{200, 500, 200, 400, 204, 503, 429, 200}
	acked := make(chan string, published)
	sink := NewSink(func(_ context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error) {
		number, _ := strconv.Atoi(ev.ID)
		status := answers[(3*number+attempt)%len(answers)]
		if status < 300 {
			acked <- ev.ID
		}
		return Status(status), nil
	})
	stop := b.start(t, sink)
	b.Publish(t, Events(published)...)
	require.Eventually(t, func() bool { return len(acked) > published/4 }, timeout, tick)
	stop()
	require.Eventually(t, func() bool {
		left := b.Backlog(t)
		return published == len(acked)+len(b.StoredDeadLetters(t))+left.Pending+left.AckPending+left.Waiting
	}, timeout, tick)

	b.start(t, sink)
	b.settled(t)
	require.Equal(t, published, len(acked)+len(b.StoredDeadLetters(t)))
}

func slowly(ctx context.Context, _ cloudevent.Event, _ int) (dispatch.Answer, error) {
	pause(ctx, 5*time.Millisecond)
	return Status(http.StatusOK), nil
}

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

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

const (
	// callTimeout is long enough that no copy is redelivered during a test.
	callTimeout = 8 * time.Second
	// detachedAfter is a quarter of it.
	detachedAfter = 2 * time.Second
)

// hanging is a sink at which the first calls of the events up to number hang until they are released, and then have the answer.
func hanging(b *bench, number, status int) (sink *Sink, release chan struct{}) {
	b.options.Timeout = callTimeout
	release = make(chan struct{})
	return NewSink(func(ctx context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error) {
		if n, _ := strconv.Atoi(ev.ID); n >= number || attempt > 1 {
			return Status(http.StatusOK), nil
		}
		select {
		case <-release:
			return Status(status), nil
		case <-ctx.Done():
			return dispatch.Answer{}, ctx.Err()
		}
	}), release
}

func detaches(t *testing.T, b *bench) {
	t.Helper()
	sink, release := hanging(b, MaxAckPending, http.StatusOK)
	b.start(t, sink)
	b.Publish(t, Events(50)...)
	require.Eventually(t, func() bool { return len(sink.Attempts()) == 50 }, timeout, tick, "calls that hang block the others")
	b.backlogIs(t, Backlog{Detached: MaxAckPending})
	require.Equal(t, MaxAckPending, sink.Busy(), "they go on")
	b.holds(t, MaxAckPending)
	close(release)
	b.settled(t)
	b.holds(t, 0)
	require.Equal(t, each(50, 1), sink.Attempts())
}

func boundsDetached(t *testing.T, b *bench) {
	t.Helper()
	sink, release := hanging(b, 50, http.StatusOK)
	b.start(t, sink)
	b.Publish(t, Events(50)...)
	b.backlogIs(t, Backlog{Pending: 50 - 2*MaxAckPending, AckPending: MaxAckPending, Detached: MaxAckPending})
	never.Happens(t, func() bool { return sink.Busy() > 2*MaxAckPending }, time.Second, tick)
	close(release)
	b.settled(t)
	require.Equal(t, each(50, 1), sink.Attempts())
}

func detachesNoneOfOne(t *testing.T, b *bench) {
	t.Helper()
	b.maxInFlight = 1
	sink, release := hanging(b, 1, http.StatusOK)
	b.start(t, sink)
	b.Publish(t, Events(2)...)
	require.Eventually(t, func() bool { return sink.Busy() == 1 }, timeout, tick)
	never.Happens(t, func() bool { return b.Backlog(t).Detached > 0 || len(sink.Attempts()) > 1 }, detachedAfter+time.Second/2, tick)
	close(release)
	b.settled(t)
}

func retriesDetached(t *testing.T, b *bench) {
	t.Helper()
	b.options.MaxAttempts = 2
	sink, release := hanging(b, MaxAckPending, http.StatusInternalServerError)
	b.start(t, sink)
	b.Publish(t, Events(MaxAckPending)...)
	b.backlogIs(t, Backlog{Detached: MaxAckPending})
	close(release)
	b.settled(t)
	require.Equal(t, each(MaxAckPending, 2), sink.Attempts())
	require.Equal(t, MaxAckPending, b.count(t, dispatch.Retry))
	require.Empty(t, b.StoredDeadLetters(t))
}

func deadLettersDetached(t *testing.T, b *bench) {
	t.Helper()
	sink, release := hanging(b, 1, http.StatusBadRequest)
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.backlogIs(t, Backlog{Detached: 1})
	close(release)
	b.settled(t)
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, dispatch.DeadLetter{Reason: failure.SinkRejected, Attempts: 1, Status: http.StatusBadRequest}, deadLetters[0].DeadLetter)
}

func drainGivesBackDetached(t *testing.T, b *bench) {
	t.Helper()
	b.options.DrainTimeout = 0
	stuck, _ := hanging(b, MaxAckPending, http.StatusOK)
	stop := b.start(t, stuck)
	b.Publish(t, Events(MaxAckPending)...)
	b.backlogIs(t, Backlog{Detached: MaxAckPending})
	stop()
	require.Equal(t, MaxAckPending, b.count(t, dispatch.Return), "none is left to the end of its call")
	b.start(t, NewSink(nil))
	b.settled(t)
	require.Empty(t, b.StoredDeadLetters(t))
}
