package dispatchtest

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// of makes events with a customer each.
func of(customers ...string) []cloudevent.Event {
	events := Events(len(customers))
	for i, customer := range customers {
		events[i].SetExtension("customer", customer)
	}
	return events
}

func keepsOrder(t *testing.T, b *bench) {
	t.Helper()
	b.options.OrderedBy = "customer"
	var mu sync.Mutex
	ids := map[string][]string{}
	sink := NewSink(func(ctx context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error) {
		if attempt == 1 && (ev.ID == "0" || ev.ID == "4") {
			return Status(http.StatusServiceUnavailable), nil
		}
		pause(ctx, time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		customer := ev.Extension("customer")
		ids[customer] = append(ids[customer], ev.ID)
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, of("ann", "bob", "ann", "bob", "ann", "bob", "ann", "bob")...)
	b.settled(t)
	require.Equal(t, map[string][]string{"ann": {"0", "2", "4", "6"}, "bob": {"1", "3", "5", "7"}}, ids)
}

func holdsUpItsKey(t *testing.T, b *bench) {
	t.Helper()
	b.options.OrderedBy = "customer"
	b.options.Backoff = dispatch.Backoff{Base: time.Hour, Max: time.Hour}
	sink := NewSink(func(_ context.Context, ev cloudevent.Event, _ int) (dispatch.Answer, error) {
		if ev.ID == "0" {
			return Status(http.StatusServiceUnavailable), nil
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, of("ann", "bob", "ann", "bob", "bob", "bob")...)
	require.Eventually(t, func() bool { return b.ended(t) == 4 }, timeout, tick, "bob waits for ann")
	require.Equal(t, []string{"0", "1", "3", "4", "5"}, slices.Sorted(slices.Values(keys(sink.Attempts()))))
}

// inOrder starts a dispatcher for three events of one key, the first of which is answered by first, and returns what was
// sent, in its order.
func (b *bench) inOrder(t *testing.T, first func(attempt int) (dispatch.Answer, error)) []string {
	t.Helper()
	b.options.OrderedBy = "customer"
	var mu sync.Mutex
	var sent []string
	b.start(t, NewSink(func(_ context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error) {
		mu.Lock()
		sent = append(sent, ev.ID)
		mu.Unlock()
		if ev.ID == "0" {
			return first(attempt)
		}
		return Status(http.StatusOK), nil
	}))
	b.Publish(t, of("ann", "ann", "ann")...)
	b.settled(t)
	return sent
}

func holdsUpForGoneSink(t *testing.T, b *bench) {
	t.Helper()
	require.Equal(t, []string{"0", "0", "1", "2"}, b.inOrder(t, func(attempt int) (dispatch.Answer, error) {
		if attempt == 1 {
			return dispatch.Answer{}, dispatch.ErrSinkGone
		}
		return Status(http.StatusOK), nil
	}))
}

func holdsUpForDeadLetter(t *testing.T, b *bench) {
	t.Helper()
	b.refuseDeadLetters(1)
	require.Equal(t, []string{"0", "0", "1", "2"}, b.inOrder(t, func(int) (dispatch.Answer, error) {
		return Status(http.StatusGone), nil
	}))
}

func keepsItsPosition(t *testing.T, b *bench) {
	t.Helper()
	b.options.OrderedBy = "customer"
	release := make(chan struct{})
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		<-release
		return Status(http.StatusInternalServerError), nil
	})
	stop := b.start(t, sink)
	b.Publish(t, of("ann", "ann", "ann")...)
	b.holds(t, 3)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	b.holds(t, 1) // the others were given back
	close(release)
	<-stopped
	require.Equal(t, map[string]int{"0": 1}, sink.Attempts())
	require.Zero(t, b.count(t, dispatch.Retry), "a retry comes back behind those that come after it")
	b.left(t, 3)
}

func limitsRate(t *testing.T, b *bench) {
	t.Helper()
	const perSecond, events = 50, 30
	b.options.EventsPerSecond = perSecond
	sink := NewSink(nil)
	started := time.Now()
	b.start(t, sink)
	b.Publish(t, Events(events)...)
	b.settled(t)
	burst := perSecond/10 + 1
	require.GreaterOrEqual(t, time.Since(started), time.Duration(events-burst)*time.Second/perSecond)
}

func sparesFailingSink(t *testing.T, b *bench) {
	t.Helper()
	b.options.MaxAttempts = 1000
	var mu sync.Mutex
	broken, calls := true, 0
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if broken {
			return Status(http.StatusServiceUnavailable), nil
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(100)...)
	time.Sleep(time.Second) // of an outage: without the pauses each event were tried at least once
	mu.Lock()
	during := calls
	broken = false
	mu.Unlock()
	require.Less(t, during, 50)
	b.settled(t)
}

func keys(m map[string]int) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	return names
}
