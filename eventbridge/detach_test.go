package eventbridge

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// stuck is a sink at which the first calls of events below number hang until they are released.
type stuck struct {
	*loopback.Sink

	release func()
	ended   atomic.Int32 // of those that hang

	mu    sync.Mutex
	calls map[string]int
}

func newStuck(t *testing.T, number int) *stuck {
	t.Helper()
	answer := make(chan struct{})
	s := &stuck{release: sync.OnceFunc(func() { close(answer) }), calls: map[string]int{}}
	s.Sink = loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Ce-Id")
		if n, _ := strconv.Atoi(id); s.count(id) > 1 || n >= number {
			return
		}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		s.ended.Add(1)
	})
	t.Cleanup(s.release)
	return s
}

func (s *stuck) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id]++
	return s.calls[id]
}

func (s *stuck) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// detachedAre waits for so many detached calls, and no retries.
func (w *fixture) detachedAre(t *testing.T, calls int) {
	t.Helper()
	require.Eventually(t, func() bool {
		detached, err := w.conn.DetachedCalls(t.Context())
		retries, otherErr := w.conn.WaitingRetries(t.Context())
		return err == nil && otherErr == nil && len(retries) == 0 && detached[orders(sinkURL).Subscription] == uint64(calls)
	}, timeout, tick)
}

// The ten events that come first hang, as many as may be in flight. Without more slots the others would wait for the
// timeout of the first.
func TestHangingCallsBlockOthersForAQuarterOfTheirTimeout(t *testing.T) {
	t.Parallel()
	sink := newStuck(t, 10)
	w := newFixture(t, loopback.Ready(sink.Address()))
	bridge := w.start(t, func(_ *Deps, options *Options) { options.Sink.Timeout = 20 * time.Second })
	bridge.publishMany(t, 0, 200)
	begun := time.Now()
	require.Eventually(t, func() bool { return sink.arrived() == 200 }, timeout, tick)
	require.Zero(t, sink.ended.Load(), "the others had to wait for the end of a call that hung")
	t.Logf("190 of 200 events arrived within %s after the last was published", time.Since(begun).Round(time.Millisecond))
	w.backlogIs(t, 0, 0)
	w.detachedAre(t, 10)
	_, metrics := get(t, bridge.metricsURL)
	require.Contains(t, metrics, `rouse_eventbridge_detached_calls{namespace="shop",subscription="orders"} 10`)

	sink.release()
	w.detachedAre(t, 0)
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(200), sink.Deliveries())
	require.Eventually(t, func() bool {
		_, metrics = get(t, bridge.metricsURL)
		return strings.Contains(metrics, `rouse_eventbridge_detached_calls{namespace="shop",subscription="orders"} 0`)
	}, timeout, tick)
	require.Contains(t, metrics, `rouse_eventbridge_calls_detached_total{namespace="shop",subscription="orders"} 10`)
}

func TestADetachedCallThatTimesOutIsTriedAgain(t *testing.T) {
	t.Parallel()
	sink := newStuck(t, 2)
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Delivery.Timeout = 6 * time.Second // its own
	route.Delivery.MaxAttempts = 2
	w.routes.set(route)
	w.start(t).publishMany(t, 0, 2)
	w.detachedAre(t, 2)
	require.Eventually(t, func() bool { return sink.Deliveries()["0"] == 2 && sink.Deliveries()["1"] == 2 }, timeout, tick)
	w.detachedAre(t, 0)
	w.backlogIs(t, 0, 0)
	require.Zero(t, w.deadLetters(t))
}

func TestAnEventWhoseCallWasDetachedOutlastsItsBridge(t *testing.T) {
	t.Parallel()
	sink := newStuck(t, 1)
	w := newFixture(t, loopback.Ready(sink.Address()))
	natsLink := newLink(t, w.nats.URL())
	killed := w.start(t, func(deps *Deps, options *Options) {
		deps.Store = newStore(connect(t, natsLink.url()))
		options.Sink.Timeout = 6 * time.Second
		options.Dispatch.DrainTimeout = time.Millisecond
	})
	killed.publishMany(t, 0, 1)
	w.detachedAre(t, 1)
	natsLink.set(true)
	w.start(t)
	require.Eventually(t, func() bool { return sink.Deliveries()["0"] == 2 }, timeout, tick)
	w.detachedAre(t, 0)
	w.backlogIs(t, 0, 0)
}
