package dispatchtest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// StoredDeadLetter is a dead letter as a Backend stored it.
type StoredDeadLetter struct {
	ID string // of the event, empty for a message that is not an event
	dispatch.DeadLetter
}

// Backend is a broker with one Subscription.
type Backend interface {
	Publish(t *testing.T, events ...cloudevent.Event)
	// PublishGarbage stores a message for the Subscription that is no event.
	PublishGarbage(t *testing.T)
	// Source makes another source of the same Subscription, as another replica would have, in order if need be.
	Source(t *testing.T, ordered bool) dispatch.Source
	StoredDeadLetters(t *testing.T) []StoredDeadLetter
	Backlog(t *testing.T) Backlog
}

// Backlog is the backlog of a Backend.
type Backlog struct {
	Pending    int // not delivered, or given back
	AckPending int // delivered and not settled
	Waiting    int // for their next attempt
	Detached   int // their calls go on
}

// AckWait is the AckWait that backends are made with: short, so that a missing Extend shows.
const AckWait = time.Second

// MaxAckPending bounds the messages that a backend delivers concurrently.
const MaxAckPending = 4

const (
	timeout = 20 * time.Second      // bounds the wait for an expected event
	tick    = 10 * time.Millisecond // how often it polls
)

// Run runs the suite.
func Run(t *testing.T, newBackend func(t *testing.T) Backend) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *bench){
		"every event is delivered once and acked":                    deliversOnce,
		"a closed gate leaves the backlog pending":                   closedGate,
		"a gate that closes lets nothing in any more":                closingGate,
		"nothing starts behind a gate that closed":                   busyBehindClosedGate,
		"a failing sink is retried with backoff":                     retries,
		"Retry-After is honoured":                                    honoursRetryAfter,
		"a refused event becomes a dead letter":                      refuses,
		"an event whose attempts are exhausted is a dead letter":     exhausts,
		"a message that is no event becomes a dead letter":           deadLettersGarbage,
		"a dead letter that cannot be stored leaves the event":       retriesUntilDeadLetterIsStored,
		"a sink that is gone exhausts no attempts":                   outlivesGoneSink,
		"a sink slower than AckWait gets each event once":            extends,
		"no more than maxInFlight events are sent at a time":         boundsInFlight,
		"retries that wait block no others":                          retriesBlockNoOthers,
		"what a failing sink gets is reduced until it recovers":      sparesFailingSink,
		"a rate limit holds":                                         limitsRate,
		"events of one key are delivered in order":                   keepsOrder,
		"a failing event holds up its key alone":                     holdsUpItsKey,
		"what does not reach the sink holds up its key":              holdsUpForGoneSink,
		"a dead letter that cannot be stored holds up its key":       holdsUpForDeadLetter,
		"what fails during a drain keeps its position in order":      keepsItsPosition,
		"what the filter leaves out is not delivered":                filters,
		"a reply is published before its event is acked":             publishesReplies,
		"a reply that cannot be stored is tried again":               repeatsReplies,
		"a reply that is no event is ignored":                        ignoresInvalidReplies,
		"a chain of replies ends":                                    endsChains,
		"a chain of emitted events ends":                             endsChainsOfEmittedEvents,
		"an old event becomes a dead letter behind a closed gate":    expires,
		"an old event is not tried again":                            expiresBetweenAttempts,
		"events that are too many become dead letters":               sheds,
		"the filter leaves out what is too much":                     shedsWhatIsWanted,
		"what is over the quota does not wait for a filter":          shedsPastStarvedFilter,
		"a sink that does not answer keeps nothing that is too much": interruptsWhatIsTooMuch,
		"calls that hang leave their slots to others":                detaches,
		"no more calls are detached than may be in flight":           boundsDetached,
		"one at a time stays one at a time":                          detachesNoneOfOne,
		"a detached call that fails is an attempt":                   retriesDetached,
		"a detached call may end in a dead letter":                   deadLettersDetached,
		"a drain gives back detached calls":                          drainGivesBackDetached,
		"two replicas share the messages":                            shares,
		"a drain lets busy deliveries finish":                        drains,
		"a drain gives back what takes too long":                     drainGivesBack,
		"a panic of the sink is a failed attempt":                    survivesPanic,
		"a source that fails is asked again":                         survivesSource,
		"what is published is acked, dead-lettered or in the queue":  conserves,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			b := &bench{
				Backend: newBackend(t), gate: NewGate(true), maxInFlight: MaxAckPending, options: options(),
				registry: registry, metrics: dispatch.NewMetrics(registry),
			}
			test(t, b)
		})
	}
}

func options() dispatch.Options {
	return dispatch.Options{
		MaxInFlight:  1000,
		MaxAttempts:  4,
		Backoff:      dispatch.Backoff{Base: 40 * time.Millisecond, Max: time.Second},
		ShortDelay:   10 * time.Millisecond,
		AckWait:      AckWait,
		DrainTimeout: timeout,
		MaxHops:      3,
	}
}

// bench is one test's set-up; tests change it before they start a dispatcher.
type bench struct {
	Backend
	gate        *Gate
	maxInFlight int
	options     dispatch.Options
	source      func(dispatch.Source) dispatch.Source
	filter      dispatch.Filter
	replies     dispatch.Replies
	quota       dispatch.Quota

	registry  *prometheus.Registry
	metrics   *dispatch.Metrics
	published int
}

// Publish counts.
func (b *bench) Publish(t *testing.T, events ...cloudevent.Event) {
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
		Source:       b.Source(t, b.options.OrderedBy != ""),
		Gate:         b.gate,
		Sink:         sink,
		Filter:       b.filter,
		Replies:      b.replies,
		Quota:        b.quota,
		Metrics:      b.metrics,
		Log:          logr.Discard(),
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
func (b *bench) backlogIs(t *testing.T, want Backlog) {
	t.Helper()
	require.Eventually(t, func() bool { return b.Backlog(t) == want }, timeout, tick, "the backlog is not %+v", want)
}

// holds waits until the dispatcher holds so many messages.
func (b *bench) holds(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		families, err := b.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "rouse_eventbridge_deliveries_in_flight" {
				return int(family.GetMetric()[0].GetGauge().GetValue()) == want
			}
		}
		return false
	}, timeout, tick, "the dispatcher does not hold %d messages", want)
}

// left waits until so many messages are not settled. Brokers count those that were given back as delivered.
func (b *bench) left(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		backlog := b.Backlog(t)
		return backlog.Pending+backlog.AckPending+backlog.Waiting+backlog.Detached == want
	}, timeout, tick, "%d messages are not what is left", want)
}

// settled waits until everything that was published is acked or rejected, and nothing is left in the queue.
// An empty queue alone is not enough: a broker may count what it has just confirmed a moment later.
func (b *bench) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return b.ended(t) >= b.published }, timeout, tick, "messages are left")
	b.backlogIs(t, Backlog{})
}

// ended counts the messages that were acked or rejected.
func (b *bench) ended(t *testing.T) int {
	t.Helper()
	return b.count(t, dispatch.Ack, dispatch.Skip, dispatch.Reject)
}

// count returns how often messages were settled with one of the outcomes.
func (b *bench) count(t *testing.T, outcomes ...dispatch.Outcome) int {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	count := 0.0
	for _, family := range families {
		if family.GetName() != "rouse_eventbridge_deliveries_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" && slices.Contains(outcomes, dispatch.Outcome(label.GetValue())) {
					count += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return int(count)
}

// Events makes n events with the ids 0 to n-1.
func Events(n int) []cloudevent.Event {
	events := make([]cloudevent.Event, n)
	for i := range events {
		events[i] = cloudevent.Event{
			ID: strconv.Itoa(i), Source: "shop", Type: "order.received.v1",
			DataContentType: "application/json", Data: fmt.Appendf(nil, `{"number":%d}`, i),
		}
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

// Sink records what it is sent and answers by a function.
type Sink struct {
	mu       sync.Mutex
	answer   func(ctx context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error)
	attempts map[string]int
	busy     int
	peak     int
}

// NewSink answers by the given function, 204 when it is nil. attempt counts from 1 for each event id.
func NewSink(answer func(ctx context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error)) *Sink {
	return &Sink{answer: answer, attempts: map[string]int{}}
}

// Send implements dispatch.Sink.
func (s *Sink) Send(ctx context.Context, ev *cloudevent.Event) (dispatch.Answer, error) {
	s.mu.Lock()
	s.attempts[ev.ID]++
	attempt := s.attempts[ev.ID]
	s.busy++
	s.peak = max(s.peak, s.busy)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
	}()
	if s.answer == nil {
		return Status(http.StatusNoContent), nil
	}
	return s.answer(ctx, *ev, attempt)
}

// Status is an answer without a body.
func Status(status int) dispatch.Answer { return dispatch.Answer{Status: status} }

// Attempts returns how often each event was sent.
func (s *Sink) Attempts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.attempts)
}

// Busy is the number of calls that run.
func (s *Sink) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// Peak is the highest number of calls that ever ran at the same time.
func (s *Sink) Peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Gate is a gate that tests open and close.
type Gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
	closed chan struct{} // closed while the gate is closed
}

// NewGate makes a gate that is open or not.
func NewGate(open bool) *Gate {
	g := &Gate{opened: make(chan struct{}), closed: make(chan struct{})}
	close(g.closed)
	if open {
		g.Open()
	}
	return g
}

// Open lets Wait return.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
	close(g.opened)
}

// Close makes Wait block.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
	close(g.closed)
}

// Wait implements dispatch.Gate.
func (g *Gate) Wait(ctx context.Context) (<-chan struct{}, error) {
	g.mu.Lock()
	opened, closed := g.opened, g.closed
	g.mu.Unlock()
	select {
	case <-opened:
		return closed, ctx.Err()
	default:
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-opened:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.closed, ctx.Err()
	}
}
