package subscription

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// kymaConsumer is what eventing-manager makes of a type of a Subscription, and its stream if there is none.
func kymaConsumer(t *testing.T, server *natstest.Server) (js jetstream.JetStream, name, inbox string) {
	t.Helper()
	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err = jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: broker.DefaultStream, Subjects: []string{"kyma.>"}, Retention: jetstream.InterestPolicy, MaxMsgs: 17,
	})
	require.NoError(t, err)
	const description = "shop/orders/kyma.shop.order.received.v1"
	name, inbox = routing.TypeConsumerName(description), nats.NewInbox()
	_, err = js.CreatePushConsumer(t.Context(), broker.DefaultStream, jetstream.ConsumerConfig{
		Durable: name, Description: description, FilterSubject: "kyma.shop.order.received.v1", DeliverSubject: inbox,
		AckPolicy: jetstream.AckExplicitPolicy,
	})
	require.NoError(t, err)
	return js, name, inbox
}

func TestAStreamThatEventingManagerUsesIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js, name, inbox := kymaConsumer(t, server)
	conn := connectTo(t, server)
	g := &guard{Broker: conn, stream: broker.DefaultStream}
	refused := func(want string) {
		t.Helper()
		ensure := map[string]error{
			"streams":  g.EnsureStreams(t.Context(), broker.DefaultStreamOptions()),
			"consumer": g.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{Name: "c", Subjects: []string{"kyma.a.b"}}),
		}
		for what, err := range ensure {
			require.ErrorIs(t, err, errEventingManager, what)
			require.ErrorContains(t, err, want, what)
			require.ErrorContains(t, err, "kyma.allowEventingManager=true", what)
			_, waits := errors.AsType[*kube.WaitingError](classify(err))
			require.True(t, waits, "%s: it is tried again", what)
		}
	}
	refused("it has left 1 consumers in stream sap")

	nc := js.Conn()
	bound, err := nc.SubscribeSync(inbox)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	require.Eventually(t, func() bool {
		found, err := conn.KymaConsumers(t.Context(), broker.DefaultStream)
		return err == nil && found.Bound == 1
	}, patience, tick)
	refused("it receives on 1 consumers of stream sap")
	stream, err := js.Stream(t.Context(), broker.DefaultStream)
	require.NoError(t, err)
	require.EqualValues(t, 17, stream.CachedInfo().Config.MaxMsgs, "its settings are as they were")

	require.NoError(t, bound.Unsubscribe())
	require.NoError(t, js.DeleteConsumer(t.Context(), broker.DefaultStream, name))
	require.NoError(t, g.EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
	kymaConsumer(t, server)
	require.NoError(t, g.EnsureStreams(t.Context(), broker.DefaultStreamOptions()), "a process that has begun goes on")
}

func TestOnlyConsumersOfEventingManagerAreItsOwn(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connectTo(t, server)
	_, err := conn.KymaConsumers(t.Context(), broker.DefaultStream)
	require.ErrorIs(t, err, broker.ErrNoStream)
	g := &guard{Broker: conn, stream: broker.DefaultStream}
	require.NoError(t, g.EnsureStreams(t.Context(), broker.DefaultStreamOptions()), "a new NATS")

	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for _, durable := range []string{"mine", routing.TypeConsumerName("another")} {
		_, err = js.CreatePushConsumer(t.Context(), broker.DefaultStream, jetstream.ConsumerConfig{
			Durable: durable, Description: "shop/orders/kyma.a.b", FilterSubject: "kyma.a.b", DeliverSubject: nats.NewInbox(),
		})
		require.NoError(t, err)
	}
	require.NoError(t, conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{
		Name: routing.ConsumerName("shop", "orders"), Description: "shop/orders", Subjects: []string{"kyma.a.c"}, AckWait: time.Second,
	}))
	found, err := conn.KymaConsumers(t.Context(), broker.DefaultStream)
	require.NoError(t, err)
	require.False(t, found.Any())
}

func TestASubscriptionSaysThatItsStreamIsShared(t *testing.T) {
	server := natstest.Start(t)
	kymaConsumer(t, server)
	w := newWorldAt(t, server, server.URL())
	w.createSink()
	sub := w.create("orders")
	w.awaitStatus(sub, "it says why it is not active", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return slices.ContainsFunc(status.Conditions, func(c eventingv1alpha2.Condition) bool {
			return c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "kyma.allowEventingManager=true")
		})
	})
}

func TestAStreamThatEventingManagerUsesMayBeUsedAllTheSame(t *testing.T) {
	server := natstest.Start(t)
	kymaConsumer(t, server)
	w := newWorldAt(t, server, server.URL(), func(o *Options) { o.AllowEventingManager = true })
	w.createSink()
	w.awaitReady(w.create("orders"))
}
