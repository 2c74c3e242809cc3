package dispatchtest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// quota is over for the events below a number.
type quota struct {
	mu      sync.Mutex
	below   int
	changed chan struct{}
}

func newQuota() *quota { return &quota{changed: make(chan struct{})} }

func (q *quota) set(below int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.below = below
	close(q.changed)
	q.changed = make(chan struct{})
}

// Wait implements dispatch.Quota.
func (q *quota) Wait(ctx context.Context) (<-chan struct{}, error) {
	for {
		q.mu.Lock()
		below, changed := q.below, q.changed
		q.mu.Unlock()
		if below > 0 {
			return changed, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// Over implements dispatch.Quota.
func (q *quota) Over(msg dispatch.Message) bool {
	ev, err := msg.Event()
	if err != nil {
		return false
	}
	number, err := strconv.Atoi(ev.ID)
	q.mu.Lock()
	defer q.mu.Unlock()
	return err == nil && number < q.below
}

// overLimitReasons returns the reasons of the dead letters, none of which was attempted.
func (b *bench) overLimitReasons(t *testing.T) map[string]failure.Reason {
	t.Helper()
	reasons := map[string]failure.Reason{}
	for _, deadLetter := range b.StoredDeadLetters(t) {
		require.Zero(t, deadLetter.Attempts, deadLetter.ID)
		require.NotContains(t, reasons, deadLetter.ID)
		reasons[deadLetter.ID] = deadLetter.Reason
	}
	return reasons
}

func expires(t *testing.T, b *bench) {
	t.Helper()
	b.gate = NewGate(false)
	b.options.TTL = 300 * time.Millisecond
	sink := NewSink(nil)
	b.start(t, sink)
	began := time.Now()
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.GreaterOrEqual(t, time.Since(began), b.options.TTL)
	require.Equal(t, map[string]failure.Reason{"0": failure.Expired, "1": failure.Expired, "2": failure.Expired}, b.overLimitReasons(t))
	require.Empty(t, sink.Attempts())

	b.gate.Open()
	b.Publish(t, cloudevent.Event{ID: "fresh", Source: "shop", Type: "order.received.v1"})
	b.settled(t)
	require.Equal(t, map[string]int{"fresh": 1}, sink.Attempts())
}

func expiresBetweenAttempts(t *testing.T, b *bench) {
	t.Helper()
	b.options.TTL = 500 * time.Millisecond
	b.options.MaxAttempts = 1000
	b.options.Backoff = dispatch.Backoff{Base: 200 * time.Millisecond, Max: 200 * time.Millisecond}
	sink := NewSink(func(context.Context, cloudevent.Event, int) (dispatch.Answer, error) {
		return Status(http.StatusInternalServerError), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, failure.Expired, deadLetters[0].Reason)
	require.Equal(t, sink.Attempts()["0"], deadLetters[0].Attempts)
}

func sheds(t *testing.T, b *bench) {
	t.Helper()
	b.gate = NewGate(false)
	limit := newQuota()
	b.quota = limit
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(20)...)
	b.left(t, 20)
	limit.set(15)
	b.left(t, 5)
	want := map[string]failure.Reason{}
	for i := range 15 {
		want[strconv.Itoa(i)] = failure.QuotaExceeded
	}
	require.Equal(t, want, b.overLimitReasons(t))
	limit.set(0)
	b.gate.Open()
	b.settled(t)
	require.Equal(t, map[string]int{"15": 1, "16": 1, "17": 1, "18": 1, "19": 1}, sink.Attempts())
}

func shedsWhatIsWanted(t *testing.T, b *bench) {
	t.Helper()
	b.gate = NewGate(false)
	b.filter = filterFunc(func(ev *cloudevent.Event) (bool, error) { return ev.ID == "1", nil })
	limit := newQuota()
	b.quota = limit
	b.start(t, NewSink(nil))
	b.Publish(t, Events(3)...)
	limit.set(3)
	b.settled(t)
	require.Equal(t, map[string]failure.Reason{"1": failure.QuotaExceeded}, b.overLimitReasons(t))
}

// starvedFilter is a filter that never gets to run.
type starvedFilter struct{ over <-chan struct{} }

// Match implements dispatch.Filter.
func (f starvedFilter) Match(*cloudevent.Event) (bool, error) {
	<-f.over
	return false, dispatch.ErrNotFiltered
}

// MatchSoon implements dispatch.PromptFilter.
func (starvedFilter) MatchSoon(*cloudevent.Event) (bool, error) {
	return false, dispatch.ErrNotFiltered
}

func shedsPastStarvedFilter(t *testing.T, b *bench) {
	t.Helper()
	b.gate = NewGate(false)
	over := make(chan struct{})
	b.filter = starvedFilter{over}
	limit := newQuota()
	b.quota = limit
	b.start(t, NewSink(nil))
	t.Cleanup(func() { close(over) }) // before the dispatcher drains
	b.Publish(t, Events(3)...)
	limit.set(3)
	b.settled(t)
	require.Len(t, b.overLimitReasons(t), 3)
}

func interruptsWhatIsTooMuch(t *testing.T, b *bench) {
	t.Helper()
	b.options.EventsPerSecond = 2
	limit := newQuota()
	b.quota = limit
	sink := NewSink(func(ctx context.Context, _ cloudevent.Event, _ int) (dispatch.Answer, error) {
		<-ctx.Done()
		return dispatch.Answer{}, ctx.Err()
	})
	b.start(t, sink)
	b.Publish(t, Events(12)...)
	require.Eventually(t, func() bool { return sink.Busy() > 0 }, timeout, tick)
	limit.set(12)
	b.settled(t)
	require.Len(t, b.overLimitReasons(t), 12)
}

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
