package dispatchtest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
)

// Letter is a dead letter as a Backend stored it.
type Letter struct {
	ID string // of the event, empty when the message was none
	dispatch.DeadLetter
}

// Backend is a broker with one Subscription.
type Backend interface {
	Publish(t *testing.T, events ...event.Event)
	// PublishGarbage stores a message for the Subscription that is no event.
	PublishGarbage(t *testing.T)
	// Source makes another source of the same Subscription, as another replica would have.
	Source(t *testing.T) dispatch.Source
	DeadLetters() dispatch.DeadLetters
	Letters(t *testing.T) []Letter
	// Backlog counts messages that were not delivered, and messages that were and are not settled.
	Backlog(t *testing.T) (pending, ackPending int)
}

// AckWait is the AckWait that backends are made with: short, so that a missing Extend shows.
const AckWait = time.Second

const (
	patience = 20 * time.Second      // how long a test waits for what must happen
	tick     = 10 * time.Millisecond // how often it looks
)

// Run runs the suite.
func Run(t *testing.T, newBackend func(t *testing.T) Backend) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *bench){
		"every event is delivered once and acked":                   deliversOnce,
		"a closed gate leaves the backlog pending":                  closedGate,
		"a gate that closes calls a waiting fetch off":              closingGate,
		"no fetch through a gate that closed behind busy workers":   busyBehindClosedGate,
		"a failing sink is retried with backoff":                    retries,
		"Retry-After is honoured":                                   honoursRetryAfter,
		"a refused event becomes a dead letter":                     refuses,
		"an event whose attempts are exhausted is a dead letter":    exhausts,
		"a message that is no event becomes a dead letter":          buriesGarbage,
		"a dead letter that cannot be stored leaves the event":      keepsUnburied,
		"a sink that is gone exhausts no attempts":                  outlivesGoneSink,
		"a sink slower than AckWait gets each event once":           extends,
		"no more than maxInFlight events are sent at a time":        boundsInFlight,
		"retries that wait hold no worker":                          retriesHoldNoWorker,
		"two replicas share the messages":                           shares,
		"a drain lets busy deliveries finish":                       drains,
		"a drain gives back what takes too long":                    drainGivesBack,
		"a panic of the sink is a failed attempt":                   survivesPanic,
		"a source that fails is asked again":                        survivesSource,
		"what is published is acked, dead-lettered or in the queue": conserves,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			b := &bench{Backend: newBackend(t), gate: NewGate(true), maxInFlight: 4, registry: registry, metrics: dispatch.NewMetrics(registry), options: dispatch.Options{
				MaxInFlight:  1000,
				MaxAttempts:  4,
				Backoff:      dispatch.Backoff{Base: 40 * time.Millisecond, Max: time.Second},
				ShortDelay:   10 * time.Millisecond,
				AckWait:      AckWait,
				DrainTimeout: patience,
			}}
			test(t, b)
		})
	}
}

// bench is one test's set-up; tests change it before they start a dispatcher.
type bench struct {
	Backend
	gate        *Gate
	maxInFlight int
	options     dispatch.Options
	letters     dispatch.DeadLetters
	source      func(dispatch.Source) dispatch.Source

	registry  *prometheus.Registry
	metrics   *dispatch.Metrics
	published int
}

// Publish counts.
func (b *bench) Publish(t *testing.T, events ...event.Event) {
	t.Helper()
	b.Backend.Publish(t, events...)
	b.published += len(events)
}

// PublishGarbage counts.
func (b *bench) PublishGarbage(t *testing.T) {
	t.Helper()
	b.Backend.PublishGarbage(t)
	b.published++
}

// start runs a dispatcher. stop drains it and returns when it is done; the end of the test stops it too.
func (b *bench) start(t *testing.T, sink dispatch.Sink) (stop func()) {
	t.Helper()
	deps := dispatch.Deps{
		Subscription: dispatch.Subscription{Namespace: "shop", Name: "orders"},
		MaxInFlight:  b.maxInFlight,
		Source:       b.Source(t),
		Gate:         b.gate,
		Sink:         sink,
		DeadLetters:  b.DeadLetters(),
		Metrics:      b.metrics,
		Log:          logr.Discard(),
	}
	if b.letters != nil {
		deps.DeadLetters = b.letters
	}
	if b.source != nil {
		deps.Source = b.source(deps.Source)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { dispatch.New(deps, b.options).Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// backlogIs waits until the queue is as wanted: brokers count a moment later.
func (b *bench) backlogIs(t *testing.T, wantPending, wantAckPending int) {
	t.Helper()
	require.Eventually(t, func() bool {
		pending, ackPending := b.Backlog(t)
		return pending == wantPending && ackPending == wantAckPending
	}, patience, tick, "the backlog is not %d pending and %d in delivery", wantPending, wantAckPending)
}

// settled waits until everything that was published is acked or rejected, and nothing is left in the queue.
// An empty queue alone says little: a broker may count what it has just confirmed a moment later.
func (b *bench) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return b.ended(t) >= b.published }, patience, tick, "messages are left")
	b.backlogIs(t, 0, 0)
}

// ended counts the messages that were acked or rejected.
func (b *bench) ended(t *testing.T) int {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	ended := 0.0
	for _, family := range families {
		if family.GetName() != "rouse_eventbridge_deliveries_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" && label.GetValue() != string(dispatch.Retry) {
					ended += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return int(ended)
}

// Events makes n events with the ids 0 to n-1.
func Events(n int) []event.Event {
	events := make([]event.Event, n)
	for i := range events {
		ev := event.New()
		ev.SetID(strconv.Itoa(i))
		ev.SetSource("shop")
		ev.SetType("order.received.v1")
		if err := ev.SetData(event.ApplicationJSON, map[string]int{"number": i}); err != nil {
			panic(err)
		}
		events[i] = ev
	}
	return events
}

// each is the expectation that n events were sent the given number of times.
func each(n, attempts int) map[string]int {
	want := map[string]int{}
	for i := range n {
		want[strconv.Itoa(i)] = attempts
	}
	return want
}

func deliversOnce(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(50)...)
	b.settled(t)
	require.Equal(t, each(50, 1), sink.Attempts())
	require.Empty(t, b.Letters(t))
}

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

func retries(t *testing.T, b *bench) {
	t.Helper()
	var mu sync.Mutex
	var times []time.Time
	sink := NewSink(func(_ context.Context, _ event.Event, attempt int) (dispatch.Answer, error) {
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
	require.Empty(t, b.Letters(t))
}

func honoursRetryAfter(t *testing.T, b *bench) {
	t.Helper()
	var mu sync.Mutex
	var times []time.Time
	sink := NewSink(func(_ context.Context, _ event.Event, attempt int) (dispatch.Answer, error) {
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
	sink := NewSink(func(_ context.Context, ev event.Event, _ int) (dispatch.Answer, error) {
		if ev.ID() == "1" {
			return dispatch.Answer{Status: http.StatusBadRequest, Excerpt: "no such order"}, nil
		}
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.Equal(t, each(3, 1), sink.Attempts())
	letters := b.Letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, Letter{ID: "1", DeadLetter: dispatch.DeadLetter{
		Reason: "sink refused the event", Attempts: 1, Status: http.StatusBadRequest, Excerpt: "no such order",
	}}, letters[0])
}

func exhausts(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(context.Context, event.Event, int) (dispatch.Answer, error) {
		return dispatch.Answer{}, errors.New("connection reset")
	})
	b.start(t, sink)
	b.Publish(t, Events(2)...)
	b.settled(t)
	require.Equal(t, each(2, 4), sink.Attempts())
	letters := b.Letters(t)
	require.Len(t, letters, 2)
	require.Equal(t, dispatch.DeadLetter{Reason: "all attempts failed", Attempts: 4}, letters[0].DeadLetter)
}

func buriesGarbage(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(nil)
	b.start(t, sink)
	b.PublishGarbage(t)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Equal(t, each(1, 1), sink.Attempts())
	letters := b.Letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, "message is not a CloudEvent", letters[0].Reason)
}

func keepsUnburied(t *testing.T, b *bench) {
	t.Helper()
	refusals := 2
	b.letters = lettersFunc(func(ctx context.Context, msg dispatch.Message, letter dispatch.DeadLetter) error {
		if refusals--; refusals >= 0 {
			return errors.New("no space left")
		}
		return b.DeadLetters().Add(ctx, msg, letter)
	})
	sink := NewSink(func(context.Context, event.Event, int) (dispatch.Answer, error) {
		return Status(http.StatusGone), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Equal(t, each(1, 3), sink.Attempts())
	letters := b.Letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, 3, letters[0].Attempts)
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

func extends(t *testing.T, b *bench) {
	t.Helper()
	sink := NewSink(func(ctx context.Context, _ event.Event, _ int) (dispatch.Answer, error) {
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
	sink := NewSink(func(context.Context, event.Event, int) (dispatch.Answer, error) {
		<-release
		return Status(http.StatusOK), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(12)...)
	require.Eventually(t, func() bool { return sink.Busy() == 4 }, patience, tick)
	b.backlogIs(t, 8, 4)
	close(release)
	b.settled(t)
	require.Equal(t, 4, sink.Peak())
	require.Equal(t, each(12, 1), sink.Attempts())
}

func retriesHoldNoWorker(t *testing.T, b *bench) {
	t.Helper()
	b.maxInFlight = 1
	b.options.Backoff = dispatch.Backoff{Base: time.Minute, Max: time.Minute}
	sink := NewSink(func(_ context.Context, ev event.Event, _ int) (dispatch.Answer, error) {
		if ev.ID() == "9" {
			return Status(http.StatusOK), nil
		}
		return Status(http.StatusServiceUnavailable), nil
	})
	b.start(t, sink)
	b.Publish(t, Events(10)...)
	require.Eventually(t, func() bool { return len(sink.Attempts()) == 10 }, patience, tick, "failing events block the others")
	b.backlogIs(t, 0, 9)
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

func drains(t *testing.T, b *bench) {
	t.Helper()
	release := make(chan struct{})
	sink := NewSink(func(context.Context, event.Event, int) (dispatch.Answer, error) {
		<-release
		return Status(http.StatusOK), nil
	})
	stop := b.start(t, sink)
	b.Publish(t, Events(10)...)
	require.Eventually(t, func() bool { return sink.Busy() == 4 }, patience, tick)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	require.Never(t, func() bool {
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
	b.backlogIs(t, 6, 0)
}

func drainGivesBack(t *testing.T, b *bench) {
	t.Helper()
	b.options.DrainTimeout = 50 * time.Millisecond
	stuck := NewSink(func(ctx context.Context, _ event.Event, _ int) (dispatch.Answer, error) {
		<-ctx.Done()
		return dispatch.Answer{}, ctx.Err()
	})
	stop := b.start(t, stuck)
	b.Publish(t, Events(4)...)
	require.Eventually(t, func() bool { return stuck.Busy() == 4 }, patience, tick)
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
	sink := NewSink(func(_ context.Context, _ event.Event, attempt int) (dispatch.Answer, error) {
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
		return sourceFunc(func(ctx context.Context, limit int) ([]dispatch.Message, error) {
			if failures--; failures >= 0 {
				return nil, errors.New("no consumer")
			}
			return s.Fetch(ctx, limit)
		})
	}
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.Equal(t, each(3, 1), sink.Attempts())
}

func conserves(t *testing.T, b *bench) {
	t.Helper()
	const published = 200
	b.maxInFlight = 16
	answers := []int{200, 500, 200, 400, 204, 503, 429, 200}
	acked := make(chan string, published)
	sink := NewSink(func(_ context.Context, ev event.Event, attempt int) (dispatch.Answer, error) {
		status := answers[(len(ev.ID())*7+int(ev.ID()[0])+attempt)%len(answers)]
		if status < 300 {
			acked <- ev.ID()
		}
		return Status(status), nil
	})
	stop := b.start(t, sink)
	b.Publish(t, Events(published)...)
	require.Eventually(t, func() bool { return len(acked) > published/4 }, patience, tick)
	stop()
	require.Eventually(t, func() bool {
		pending, ackPending := b.Backlog(t)
		return published == len(acked)+len(b.Letters(t))+pending+ackPending
	}, patience, tick)

	b.start(t, sink)
	b.settled(t)
	require.Equal(t, published, len(acked)+len(b.Letters(t)))
}

func slowly(ctx context.Context, _ event.Event, _ int) (dispatch.Answer, error) {
	pause(ctx, 5*time.Millisecond)
	return Status(http.StatusOK), nil
}

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

type sourceFunc func(context.Context, int) ([]dispatch.Message, error)

func (f sourceFunc) Fetch(ctx context.Context, limit int) ([]dispatch.Message, error) {
	return f(ctx, limit)
}

type lettersFunc func(context.Context, dispatch.Message, dispatch.DeadLetter) error

func (f lettersFunc) Add(ctx context.Context, msg dispatch.Message, letter dispatch.DeadLetter) error {
	return f(ctx, msg, letter)
}
