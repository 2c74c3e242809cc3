package eventbridge

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const (
	customers   = 12
	perCustomer = 20
	inOrder     = "order.placed.v1"
)

// placed is an ordered Subscription next to orders.
func placed() routing.Route {
	route := orders("http://books.shop.svc.cluster.local/in")
	route.Subscription.Name = "books"
	route.Consumer = routing.ConsumerName("shop", "books")
	route.Subjects = []string{"kyma.shop." + inOrder, routing.RedeliverySubject(route.Consumer)}
	route.Service.Name = "books"
	route.Delivery.OrderedBy = "customer"
	route.Delivery.MaxAttempts = 1000
	route.Delivery.Backoff = routing.Backoff{Delay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond}
	return route
}

// placeOrders stores the events from..to-1 of every customer.
func (w *fixture) placeOrders(t *testing.T, from, to int) {
	t.Helper()
	for number := from; number < to; number++ {
		for customer := range customers {
			ev := cloudevent.Event{ID: fmt.Sprintf("%d-%d", customer, number), Source: "shop", Type: inOrder}
			ev.SetExtension("customer", strconv.Itoa(customer))
			ev.SetExtension("number", strconv.Itoa(number))
			require.NoError(t, w.store.Publish(t.Context(), &ev))
		}
	}
}

// books records what the sinks of all bridges receive: the guarantee is about all of them together.
type books struct {
	fails func(id string, attempt int) bool

	mu       sync.Mutex
	changed  *sync.Cond
	taken    map[string]int // the last number of each customer that was taken
	total    int            // events that were taken, without repeats
	limit    int            // of total, beyond which sinks do not answer
	attempts map[string]int
	answered map[string]bool // with success
	overtook []string
	by       map[string]int // requests of each bridge
}

func newBooks(limit int) *books {
	b := &books{taken: map[string]int{}, limit: limit, attempts: map[string]int{}, answered: map[string]bool{}, by: map[string]int{}}
	b.changed = sync.NewCond(&b.mu)
	b.fails = func(id string, attempt int) bool {
		hash := fnv.New32()
		_, _ = fmt.Fprint(hash, id, attempt)
		return hash.Sum32()%100 < 25
	}
	return b
}

// sink returns the sink of one bridge, so that the delivering bridge is known.
func (b *books) sink(t *testing.T, bridge string) *loopback.Sink {
	t.Helper()
	return loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		id, customer := r.Header.Get("Ce-Id"), r.Header.Get("Ce-Customer")
		number, _ := strconv.Atoi(r.Header.Get("Ce-Number"))
		b.mu.Lock()
		defer b.mu.Unlock()
		b.by[bridge]++
		b.changed.Broadcast()
		if number > b.taken[customer] { // neither the next nor a repeat
			b.overtook = append(b.overtook, fmt.Sprintf("%s by %s before %s-%d", id, bridge, customer, b.taken[customer]))
		}
		b.attempts[id]++
		if b.fails(id, b.attempts[id]) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		for b.total >= b.limit {
			b.changed.Wait()
		}
		b.answered[id] = true
		if number == b.taken[customer] { // of two bridges that deliver it at a time, one is the first
			b.taken[customer]++
			b.total++
			b.changed.Broadcast()
		}
	})
}

// allow lets the sinks take more events, in all.
func (b *books) allow(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
	b.changed.Broadcast()
}

func (b *books) await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return condition()
	}, timeout, tick, what)
}

func (b *books) awaitTotal(t *testing.T, total int) {
	t.Helper()
	b.await(t, fmt.Sprintf("%d events taken", total), func() bool { return b.total == total })
}

// fleet are bridges that share the books, each with a link and a sink of its own.
type fleet struct {
	*fixture
	books *books
}

func newFleet(t *testing.T, limit int, ackWait time.Duration) fleet {
	t.Helper()
	f := fleet{newFixture(t), newBooks(limit)}
	f.ackWait = ackWait
	ensureOrdered(t, f.fixture, placed())
	f.routes.set(placed())
	t.Cleanup(func() { f.books.allow(customers * perCustomer * 10) }) // no sink holds up the end of the test
	return f
}

// ensureOrdered raises the limit for events that wait for others of their key, as the controller does.
func ensureOrdered(t *testing.T, w *fixture, route routing.Route) {
	t.Helper()
	route.MaxInFlight = 100
	ensureConsumer(t, w.conn, route, w.ackWait)
}

func (f fleet) bridge(t *testing.T, name string) (*replica, *link) {
	t.Helper()
	natsLink := newLink(t, f.nats.URL())
	endpoints := loopback.NewEndpoints(loopback.Ready(f.books.sink(t, name).Address()))
	store := newStore(connect(t, natsLink.url()))
	return f.start(t, func(deps *Deps, _ *Options) { deps.Store, deps.Endpoints = store, endpoints }), natsLink
}

// Guarantee for a customer's events: none is sent before the previous one was accepted. A sent event may be sent again.
func TestOrderedDeliveryHoldsOverAllBridges(t *testing.T) {
	t.Parallel()
	const all = customers * perCustomer
	f := newFleet(t, all/4, 3*time.Second)
	_, linkOfA := f.bridge(t, "a")
	f.placeOrders(t, 0, perCustomer/2)
	f.books.awaitTotal(t, all/4)

	b, _ := f.bridge(t, "b")
	c, _ := f.bridge(t, "c")
	linkOfA.set(true) // while its sink holds some of them
	f.placeOrders(t, perCustomer/2, perCustomer)
	f.books.allow(all / 2)
	f.books.awaitTotal(t, all/2)
	f.books.await(t, "others deliver after the first bridge is gone", func() bool { return f.books.by["b"]+f.books.by["c"] > 0 })
	linkOfA.set(false) // with what it still has in its hands

	drained := make(chan error, 1)
	for i, stop := range []func() error{b.stop, c.stop} { // one of them owns the ordered deliveries
		go func() { drained <- stop() }()
		f.bridge(t, "d"+strconv.Itoa(i))
		time.Sleep(200 * time.Millisecond) // in which a bridge could deliver too early, while the sink holds what is being drained
		f.books.allow(all * (i + 3) / 4)
		require.NoError(t, <-drained)
		f.books.awaitTotal(t, all*(i+3)/4)
	}
	f.settled(t)
	require.Empty(t, f.books.overtook)
}

func TestOrderedEventsDoNotOvertakeALostOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, customers*perCustomer, 8*time.Second) // which is longer than to connect again
	f.books.fails = func(string, int) bool { return false }
	_, natsLink := f.bridge(t, "a")
	f.placeOrders(t, 0, 1)
	f.books.awaitTotal(t, customers)

	natsLink.silence(true)
	f.placeOrders(t, 1, 2)
	require.Eventually(t, func() bool {
		backlog, err := f.conn.Backlog(t.Context(), broker.DefaultStream, placed().Consumer)
		return err == nil && backlog.AckPending > 0 && backlog.Total() == customers
	}, timeout, tick, "some are in flight")
	natsLink.set(true)
	natsLink.silence(false)
	natsLink.set(false)
	f.placeOrders(t, 2, 3)
	f.books.awaitTotal(t, 3*customers)
	f.settled(t)
	require.Empty(t, f.books.overtook)
}

func (f fleet) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		backlog, err := f.conn.Backlog(t.Context(), broker.DefaultStream, placed().Consumer)
		return err == nil && backlog.Total() == 0
	}, timeout, tick)
}

func TestOnlyOrderedSubscriptionsAreDeliveredByOneBridge(t *testing.T) {
	t.Parallel()
	f := newFleet(t, customers*perCustomer, time.Hour)
	var mu sync.Mutex
	busy := map[string]bool{}
	release := make(chan struct{})
	route := orders(sinkURL)
	for _, name := range []string{"a", "b", "c"} {
		unordered := loopback.StartSink(t, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			busy[name] = true
			mu.Unlock()
			<-release
		})
		endpoints := perService{
			route.Service:    loopback.NewEndpoints(loopback.Ready(unordered.Address())),
			placed().Service: loopback.NewEndpoints(loopback.Ready(f.books.sink(t, name).Address())),
		}
		f.start(t, func(deps *Deps, _ *Options) { deps.Endpoints = endpoints }).publishMany(t, 0, 1)
	}
	f.routes.set(placed(), route)
	f.placeOrders(t, 0, perCustomer)
	f.books.awaitTotal(t, customers*perCustomer)
	for number := 1; ; number++ { // until all have their share, whenever they start to receive
		mu.Lock()
		count := len(busy)
		mu.Unlock()
		if count == 3 {
			break
		}
		require.Less(t, number, 1000)
		ev := cloudevent.Event{ID: "more-" + strconv.Itoa(number), Source: "shop", Type: "order.received.v1"}
		require.NoError(t, f.store.Publish(t.Context(), &ev))
		time.Sleep(tick)
	}
	close(release)
	f.settled(t)
	require.Empty(t, f.books.overtook)
	require.Len(t, f.books.by, 1)
}

func TestSwitchingOrderOnAndOffLosesNothing(t *testing.T) {
	t.Parallel()
	const all = customers * perCustomer
	f := newFleet(t, all/4, 3*time.Second)
	unordered := placed()
	unordered.Delivery.OrderedBy = ""
	ensureConsumer(t, f.conn, unordered, f.ackWait)
	f.routes.set(unordered)
	f.bridge(t, "a")
	f.bridge(t, "b")
	f.placeOrders(t, 0, perCustomer)
	f.books.await(t, "deliveries", func() bool { return f.books.total > 0 })
	for i, route := range []routing.Route{placed(), unordered, placed()} {
		f.routes.set(route) // the bridges may be first, the controller may be
		ensureOrdered(t, f.fixture, route)
		f.books.allow(all * (i + 2) / 4)
	}
	f.books.await(t, "all events delivered", func() bool { return len(f.books.answered) == all })
	f.settled(t)
}

// perService are the endpoints of several Services.
type perService map[types.NamespacedName]*loopback.Endpoints

func (p perService) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	return p[service].Watch(ctx, service, port, apply)
}
