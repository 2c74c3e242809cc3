package subscription

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// kymaConsumer is what eventing-manager makes of a type of a Subscription, with its stream if there is none.
func kymaConsumer(t *testing.T, server *natstest.Server) *natstest.PushConsumer {
	t.Helper()
	const description = "shop/orders/kyma.a.b"
	return server.AddPushConsumer(t, broker.DefaultStream, routing.TypeConsumerName(description), description)
}

func TestAStreamThatEventingManagerUsesIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	consumer := kymaConsumer(t, server)
	before := consumer.StreamLimit(t)
	conn := connectTo(t, server)
	g := &guard{Broker: conn, stream: broker.DefaultStream}
	requireRefused(t, g, "it has left 1 consumers in stream sap")

	consumer.Bind(t)
	require.Eventually(t, func() bool {
		found, err := conn.KymaConsumers(t.Context(), broker.DefaultStream)
		return err == nil && found.Bound == 1
	}, timeout, tick)
	requireRefused(t, g, "it receives on 1 consumers of stream sap")
	require.Equal(t, before, consumer.StreamLimit(t), "its settings are as they were")

	consumer.Delete(t)
	require.NoError(t, g.EnsureStreamsFor(t.Context(), broker.DefaultStreamOptions(), noConsumers))
	require.NotEqual(t, before, consumer.StreamLimit(t))
	kymaConsumer(t, server)
	require.NoError(t, g.EnsureStreamsFor(t.Context(), broker.DefaultStreamOptions(), noConsumers), "a process that has begun goes on")
}

// noConsumers is a stream without consumers.
func noConsumers(context.Context) ([]broker.Consumer, error) { return nil, nil }

func requireRefused(t *testing.T, g *guard, want string) {
	t.Helper()
	for what, err := range map[string]error{
		"streams":  g.EnsureStreamsFor(t.Context(), broker.DefaultStreamOptions(), noConsumers),
		"consumer": g.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{Name: "c", Subjects: []string{"kyma.a.b"}}),
	} {
		require.ErrorIs(t, err, errEventingManager, what)
		require.ErrorContains(t, err, want, what)
		require.ErrorContains(t, err, "kyma.allowEventingManager=true", what)
		_, waits := errors.AsType[*kube.WaitingError](classify(err))
		require.True(t, waits, "%s: it is tried again", what)
	}
}

func TestOnlyConsumersOfEventingManagerAreItsOwn(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connectTo(t, server)
	_, err := conn.KymaConsumers(t.Context(), broker.DefaultStream)
	require.ErrorIs(t, err, broker.ErrNoStream)
	g := &guard{Broker: conn, stream: broker.DefaultStream}
	require.NoError(t, g.EnsureStreamsFor(t.Context(), broker.DefaultStreamOptions(), noConsumers), "a new NATS")

	for _, name := range []string{"mine", routing.TypeConsumerName("another")} {
		server.AddPushConsumer(t, broker.DefaultStream, name, "shop/orders/kyma.a.b")
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
	w := newFixtureAt(t, server, server.URL())
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
	w := newFixtureAt(t, server, server.URL(), func(o *Options) { o.AllowEventingManager = true })
	w.createSink()
	w.awaitReady(w.create("orders"))
}
