package eventbridge

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	timeout = time.Minute
	tick    = 10 * time.Millisecond
	subject = "kyma.shop.order.received.v1"
)

// orders is the Subscription of these tests.
func orders(sink string) routing.Route {
	return routing.Route{
		Subscription: types.NamespacedName{Namespace: "shop", Name: "orders"},
		Consumer:     routing.ConsumerName("shop", "orders"),
		Subjects:     []string{subject, routing.RedeliverySubject(routing.ConsumerName("shop", "orders"))},
		Sink:         sink,
		Service:      types.NamespacedName{Namespace: "shop", Name: "price"},
		Port:         80,
		MaxInFlight:  10,
	}
}

// connect opens a connection of its own, as each replica has one.
func connect(t *testing.T, url string) *broker.Conn {
	t.Helper()
	options := broker.DefaultOptions()
	options.URL = url
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

func newStore(conn *broker.Conn) *jetstream.Store {
	return jetstream.NewStore(conn, broker.NewPublisher(conn, broker.DefaultPublisherOptions()), broker.DefaultStream)
}

func ensureStream(t *testing.T, conn *broker.Conn) {
	t.Helper()
	require.NoError(t, conn.EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
}

func ensureConsumer(t *testing.T, conn *broker.Conn, route routing.Route, ackWait time.Duration) {
	t.Helper()
	ensureConsumerOf(t, conn, route, ackWait, route.MaxInFlight) // so that what is held is what is delivered
}

func ensureConsumerOf(t *testing.T, conn *broker.Conn, route routing.Route, ackWait time.Duration, unsettled int) {
	t.Helper()
	require.NoError(t, conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{
		Name: route.Consumer, Subjects: route.Subjects, AckWait: ackWait, MaxAckPending: unsettled,
		Ordered: route.Delivery.OrderedBy != "", Metadata: broker.ConsumerOf(route).Metadata,
	}))
}
