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
