package jetstream

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/dispatch/dispatchtest"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const (
	timeout = time.Minute
	tick    = 10 * time.Millisecond
	subject = "kyma.shop.order.received.v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDispatcherSuiteOnJetStream(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(t *testing.T) dispatchtest.Backend {
		t.Helper()
		server := natstest.Start(t)
		conn := connect(t, server)
		b := &backend{server: server, conn: conn, store: newStore(conn), route: orders()}
		require.NoError(t, conn.EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
		b.ensureConsumer(t)
		b.forward(t)
		return b
	})
}

// orders is the Subscription of these tests.
func orders() routing.Route {
	consumer := routing.ConsumerName("shop", "orders")
	return routing.Route{
		Subscription: types.NamespacedName{Namespace: "shop", Name: "orders"},
		Consumer:     consumer,
		Subjects:     []string{subject, routing.RedeliverySubject(consumer)},
		MaxInFlight:  dispatchtest.MaxAckPending,
	}
}

// connect opens a connection of its own, as each replica has one.
func connect(t *testing.T, server *natstest.Server) *broker.Conn {
	t.Helper()
	options := broker.DefaultOptions()
	options.URL = server.URL()
	conn, err := broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_ = conn.Close(ctx) // the server may be gone before
	})
	require.Eventually(t, conn.Connected, timeout, tick)
	return conn
}

func newStore(conn *broker.Conn) *Store {
	return NewStore(conn, broker.NewPublisher(conn, broker.DefaultPublisherOptions()), broker.DefaultStream)
}

// backend runs the suite on a nats-server.
type backend struct {
	server *natstest.Server
	conn   *broker.Conn // of the test
	store  *Store
	route  routing.Route
}

func (b *backend) Publish(t *testing.T, events ...cloudevent.Event) {
	t.Helper()
	for _, ev := range events {
		require.NoError(t, b.store.Publish(t.Context(), &ev))
	}
}

func (b *backend) PublishGarbage(t *testing.T) {
	t.Helper()
	b.server.Publish(t, subject, []byte("no event"))
}

func (b *backend) Source(t *testing.T, ordered bool) dispatch.Source {
	t.Helper()
	if ordered {
		b.route.Delivery.OrderedBy = "customer"
		b.ensureConsumer(t)
	}
	return newStore(connect(t, b.server)).Source(b.route, plenty(), nil)
}

func (b *backend) ensureConsumer(t *testing.T) {
	t.Helper()
	require.NoError(t, b.conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{
		Name: b.route.Consumer, Subjects: b.route.Subjects, AckWait: dispatchtest.AckWait, MaxAckPending: b.route.MaxInFlight,
		Ordered: b.route.Delivery.OrderedBy != "", Metadata: broker.ConsumerOf(b.route).Metadata,
	}))
}

// forward brings retries back until the test ends.
func (b *backend) forward(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { b.store.ForwardRetries(ctx, fair.NewBudget(1<<30, 0)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (b *backend) StoredDeadLetters(t *testing.T) []dispatchtest.StoredDeadLetter {
	t.Helper()
	page, err := b.conn.ListDeadLetters(t.Context(), broker.DeadLetterQuery{Limit: 1000})
	require.NoError(t, err)
	require.Zero(t, page.Next, "there are more than one page")
	stored := make([]dispatchtest.StoredDeadLetter, 0, len(page.DeadLetters))
	for _, l := range page.DeadLetters {
		require.Equal(t, b.route.Subscription, l.Subscription)
		stored = append(stored, dispatchtest.StoredDeadLetter{ID: l.ID, DeadLetter: dispatch.DeadLetter{
			Reason: l.Reason, Attempts: l.Attempts, Status: l.Status, Excerpt: l.Excerpt,
		}})
	}
	return stored
}

func (b *backend) Backlog(t *testing.T) dispatchtest.Backlog {
	t.Helper()
	backlog, err := b.conn.Backlog(t.Context(), broker.DefaultStream, b.route.Consumer)
	require.NoError(t, err)
	waiting, err := b.conn.WaitingRetries(t.Context())
	require.NoError(t, err)
	calls, err := b.conn.DetachedCalls(t.Context())
	require.NoError(t, err)
	return dispatchtest.Backlog{
		Pending: int(backlog.Pending), AckPending: int(backlog.AckPending),
		Waiting: int(waiting[b.route.Subscription]), Detached: int(calls[b.route.Subscription]),
	}
}

// plenty is memory that no test fills.
func plenty() *fair.Share { return fair.NewBudget(1<<40, 0).Share("") }

var received dispatch.Message

// It is not parallel, because it counts the allocations of the process.
func TestHandingAMessageToItsDispatcherAllocatesNothing(t *testing.T) {
	event, deadLetter := &broker.Message{}, &broker.DeadLetterMessage{}
	each := func(msg dispatch.Message) { received = msg }
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		each(message{event})
		each(deadLetterMessage{deadLetter})
	}))
}

func TestADeadLetterBecomesNoOther(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, deadLetterMessage{}.StoreDeadLetter(t.Context(), dispatch.DeadLetter{}), errDeadLetterAlready)
}
