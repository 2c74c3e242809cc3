package dispatchtest

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/testing/never"
)

const (
	// callTimeout leaves copies so much time that none comes back by itself during a test.
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
