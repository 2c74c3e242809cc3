package eventbridge

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// hostileFilter costs almost as much for a large order as an evaluation may, and then lets it through.
func hostileFilter() *eventingv1alpha2.Filter {
	return &eventingv1alpha2.Filter{CEL: "data.all(a, a == 1)"}
}

func largeOrder(id string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"shop","type":"order.received.v1","data":[` + strings.Repeat("1,", 3_000) + `1]}`
}

// One tenant has a Subscription with a costly filter for large events, in as many deliveries at a time as there may be.
// What others publish and get does not wait for it.
func TestACostlyFilterDelaysNoOtherTenant(t *testing.T) {
	t.Parallel()
	const hostileEvents, honestEvents = 600, 20
	var hostileDone, honestDone atomic.Int32
	sink := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Ce-Id"), "hostile") {
			hostileDone.Add(1)
			return
		}
		honestDone.Add(1)
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	hostile, honest := orders(sinkURL), orders(sinkURL)
	hostile.Filter, hostile.MaxInFlight = hostileFilter(), hostileEvents
	honest.Subscription = types.NamespacedName{Namespace: "bank", Name: "orders"}
	honest.Consumer = routing.ConsumerName("bank", "orders")
	honest.Subjects = []string{"kyma.bank.order.received.v1", routing.RedeliverySubject(honest.Consumer)}
	honest.Filter = &eventingv1alpha2.Filter{CEL: `data.order != "x"`}
	ensureConsumer(t, w.conn, hostile, w.ackWait)
	ensureConsumer(t, w.conn, honest, w.ackWait)
	w.routes.set(hostile, honest)
	bridge := w.start(t, func(_ *Deps, options *Options) { options.Dispatch.DrainTimeout = time.Minute })
	for from := 0; from < hostileEvents; from += 25 {
		batch := make([]string, 0, 25)
		for i := range 25 {
			batch = append(batch, largeOrder("hostile-"+strconv.Itoa(from+i)))
		}
		status, body := bridge.publishBatch(t, batch...)
		require.Equal(t, http.StatusNoContent, status, body)
	}
	for i := range honestEvents {
		status, body := bridge.publishBatch(t,
			`{"specversion":"1.0","id":"honest-`+strconv.Itoa(i)+`","source":"bank","type":"order.received.v1","data":{"order":"1"}}`)
		require.Equal(t, http.StatusNoContent, status, body)
	}
	require.Eventually(t, func() bool { return honestDone.Load() == honestEvents }, timeout, tick)
	require.Less(t, hostileDone.Load(), int32(hostileEvents/2), "the costly filter still has most of its work before it")

	began := time.Now()
	require.NoError(t, bridge.stop())
	require.Less(t, time.Since(began), 30*time.Second, "queued evaluations do not delay the end")
	require.Eventually(t, func() bool {
		backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, hostile.Consumer)
		return err == nil && backlog.Pending+backlog.AckPending == uint64(hostileEvents-hostileDone.Load())
	}, timeout, tick, "what was not delivered is kept")
}

func TestMatchSoonDoesNotWaitLongForTheFilter(t *testing.T) {
	t.Parallel()
	f := newFilters(prometheus.NewRegistry(), fair.NewBudget(1<<20, 4<<10), logr.Discard())
	share := f.share("shop")
	defer share.Close()
	route := orders(sinkURL)
	route.Filter = hostileFilter()
	picked, err := f.compile(route, share, t.Context().Done())
	require.NoError(t, err)
	prompt, ok := picked.(dispatch.PromptFilter)
	require.True(t, ok)
	small := &cloudevent.Event{ID: "1", Source: "shop", Type: "order.received.v1", DataContentType: "application/json", Data: []byte("[1]")}

	require.NoError(t, share.Run(t.Context().Done(), func() bool { // another event is being filtered
		_, err := prompt.MatchSoon(small)
		require.ErrorIs(t, err, dispatch.ErrNotFiltered)
		return false
	}))
	require.Eventually(t, func() bool {
		matches, err := prompt.MatchSoon(small)
		return err == nil && matches
	}, timeout, tick, "what is soon done is done")
}

// A namespace with many long filters has its own compiled for each event, and no other namespace's.
func TestCompiledFiltersStayWithinTheirMemoryBudget(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	memory := fair.NewBudget(size, 4<<10)
	f := newFilters(prometheus.NewRegistry(), memory, logr.Discard())
	long := &eventingv1alpha2.Filter{CEL: "event.id == 'yes'" + strings.Repeat(" && event.id != 'no'", 190)}
	kept, compiled := 0, 0
	var shares []*filterShare
	filters := map[string]dispatch.Filter{}
	add := func(namespace string, of *eventingv1alpha2.Filter) *boundFilter {
		route := hostileRoute("filtered")
		route.Subscription.Namespace, route.Filter = namespace, of
		share := f.share(namespace)
		shares = append(shares, share)
		picked, err := f.compile(route, share, nil)
		require.NoError(t, err)
		filters[namespace] = picked
		return picked.(*boundFilter)
	}
	for range 20 {
		if add("evil", long).filter != nil {
			kept++
		} else {
			compiled++
		}
	}
	require.Positive(t, kept)
	require.Positive(t, compiled)
	require.LessOrEqual(t, memory.Used(), int64(size/2+20*4<<10), "its half, and what each has of its own")
	require.NotNil(t, add("shop", long).filter)
	require.NotNil(t, add("evil", &eventingv1alpha2.Filter{CEL: "event.id == 'yes'"}).filter, "a usual one always fits")
	for _, namespace := range []string{"evil", "shop"} {
		for id, want := range map[string]bool{"yes": true, "no": false} {
			matches, err := filters[namespace].Match(&cloudevent.Event{ID: id})
			require.NoError(t, err)
			require.Equal(t, want, matches)
		}
	}
	unkept := add("evil", long)
	require.Nil(t, unkept.filter)
	matches, err := unkept.Match(&cloudevent.Event{ID: "yes"})
	require.NoError(t, err)
	require.True(t, matches)
	for _, share := range shares {
		share.Close()
	}
	require.Zero(t, memory.Used())
}

// neverFilter is the stop of a caller that waits for as long as it takes.
var neverFilter <-chan struct{}

func working(d time.Duration) func() bool {
	return func() bool {
		time.Sleep(d)
		return true
	}
}

func TestNoMoreWorkRunsThanHalfOfTheProcessors(t *testing.T) {
	t.Parallel()
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 16: 8} {
		synctest.Test(t, func(t *testing.T) {
			pool := newFilterPoolFor(processors)
			var mu sync.Mutex
			running, most := 0, 0
			var all sync.WaitGroup
			for range 50 {
				lane := pool.lane("blue")
				all.Go(func() {
					defer lane.Close()
					require.NoError(t, lane.Run(neverFilter, func() bool {
						mu.Lock()
						running++
						most = max(most, running)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						running--
						mu.Unlock()
						return true
					}))
				})
			}
			all.Wait()
			require.Equal(t, want, most)
		})
	}
}

func TestASingleProcessorRestsAsLongAsItWorked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, began := newFilterPoolFor(1), time.Now()
		for range 10 {
			lane := pool.lane("blue")
			require.NoError(t, lane.Run(neverFilter, working(10*time.Millisecond)))
			lane.Close()
		}
		require.Equal(t, 190*time.Millisecond, time.Since(began))
	})
}

func TestALaneUsesAQuarterOfAProcessorOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lane := newFilterPoolFor(16).lane("blue")
		defer lane.Close()
		began := time.Now()
		for time.Since(began) < burst {
			require.NoError(t, lane.Run(neverFilter, working(10*time.Millisecond)))
		}
		require.Equal(t, burst, time.Since(began), "a burst is done at once")
		done := 0
		for began = time.Now(); time.Since(began) < time.Minute; done++ {
			require.NoError(t, lane.Run(neverFilter, working(10*time.Millisecond)))
		}
		require.InDelta(t, int(time.Minute/share/(10*time.Millisecond)), done, 10)
	})
}

func TestATenantWithAThousandLanesGetsNoMoreThanOneWithOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, stop := newFilterPoolFor(2), make(chan struct{})
		var all sync.WaitGroup
		for range 1000 {
			hostile := pool.lane("red")
			all.Go(func() {
				defer hostile.Close()
				for hostile.Run(stop, working(100*time.Millisecond)) == nil {
				}
			})
		}
		synctest.Wait()
		honest := pool.lane("blue")
		for range 20 {
			began := time.Now()
			require.NoError(t, honest.Run(neverFilter, working(time.Millisecond)))
			require.LessOrEqual(t, time.Since(began), 101*time.Millisecond, "it waits for one piece of work of the others at most")
		}
		honest.Close()
		close(stop)
		all.Wait()
		require.Empty(t, pool.tenants, "who has no lane is forgotten")
		requireAllFree(t, pool)
	})
}

func TestLanesOfATenantTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, stop := newFilterPoolFor(2), make(chan struct{})
		var mu sync.Mutex
		done, end := map[*filterLane]int{}, time.Now().Add(time.Second)
		var all sync.WaitGroup
		for range 10 {
			lane := pool.lane("blue")
			for range 5 {
				all.Go(func() {
					for lane.Run(stop, working(time.Millisecond)) == nil {
						mu.Lock()
						if time.Now().Before(end) { // who may stop may also go on once more
							done[lane]++
						}
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(time.Until(end))
		close(stop)
		all.Wait()
		require.Len(t, done, 10)
		for _, n := range done {
			require.InDelta(t, 100, n, 2)
		}
	})
}

func TestWorkIsDoneInPlaceOnceItWasLightForAWhile(t *testing.T) {
	t.Parallel()
	lane := newFilterPoolFor(4).lane("blue")
	defer lane.Close()
	for range trusted {
		require.False(t, lane.Enter())
		require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
	}
	require.True(t, lane.Enter())
	lane.Leave(false)
	require.NoError(t, lane.Run(neverFilter, func() bool { return true }))
	require.False(t, lane.Enter(), "it was heavy meanwhile")
}

func TestHeavyWorkSuspendsInPlaceWorkOfItsTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := newFilterPoolFor(4)
		one, another, other := pool.lane("red"), pool.lane("red"), pool.lane("blue")
		for range trusted {
			for _, lane := range []*filterLane{one, another, other} {
				require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
			}
		}
		require.True(t, one.Enter())
		one.Leave(true)
		require.False(t, another.Enter())
		require.True(t, other.Enter(), "another tenant has nothing to do with it")
		other.Leave(false)
		time.Sleep(suspension)
		synctest.Wait()
		require.True(t, another.Enter())
		another.Leave(false)
		require.False(t, one.Enter())
	})
}

func TestLightWorkOfATenantAtATimeIsBounded(t *testing.T) {
	t.Parallel()
	pool := newFilterPoolFor(2)
	lane := pool.lane("blue")
	for range trusted {
		require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
	}
	for range 4 {
		require.True(t, lane.Enter())
	}
	require.False(t, lane.Enter())
	lane.Leave(false)
	require.True(t, lane.Enter())
}

func TestStoppedCallersDoNotWaitForAPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := newFilterPoolFor(2)
		busy, waits := pool.lane("red"), pool.lane("blue")
		var all sync.WaitGroup
		all.Go(func() { require.NoError(t, busy.Run(neverFilter, working(time.Second))) })
		synctest.Wait()
		stop := make(chan struct{})
		for range 2 { // one has the slot of the lane, the other waits for that
			all.Go(func() {
				require.ErrorIs(t, waits.Run(stop, func() bool { panic("it was stopped before") }), errStopped)
			})
		}
		synctest.Wait()
		began := time.Now()
		close(stop)
		synctest.Wait()
		require.Zero(t, time.Since(began))
		all.Wait()
		all.Go(func() { require.ErrorIs(t, busy.Run(stop, working(time.Second)), errStopped, "nor for its budget") })
		all.Wait()
		requireAllFree(t, pool)
	})
}

func TestAPanicReleasesTheSlotAndThePermit(t *testing.T) {
	t.Parallel()
	pool := newFilterPoolFor(4)
	lane := pool.lane("blue")
	for range 3 {
		require.Panics(t, func() { _ = lane.Run(neverFilter, func() bool { panic("a bug") }) })
	}
	require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
	requireAllFree(t, pool)
}

func requireAllFree(t *testing.T, pool *filterPool) {
	t.Helper()
	used, waiting := pool.permits.Stats()
	require.Zero(t, used+waiting)
}
