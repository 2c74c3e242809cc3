package subscription

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// kymaConsumer creates eventing-manager's consumer for an event type, and its stream if it is missing.
func kymaConsumer(t *testing.T, server *natstest.Server) *natstest.PushConsumer {
	t.Helper()
	const description = "shop/orders/kyma.a.b"
	return server.AddPushConsumer(t, broker.DefaultStream, routing.TypeConsumerName(description), description)
}

func TestStreamOfEventingManagerIsNotChanged(t *testing.T) {
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
	require.NoError(t, g.EnsureStreamsFor(t.Context(), broker.DefaultStreamOptions(), noConsumers), "a running process continues")
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

func TestGuardRecognizesOnlyConsumersOfEventingManager(t *testing.T) {
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

func TestSubscriptionReportsASharedStream(t *testing.T) {
	server := natstest.Start(t)
	kymaConsumer(t, server)
	w := newFixtureAt(t, server, server.URL())
	w.createSink()
	sub := w.create("orders")
	w.awaitStatus(sub, "it reports why it is not active", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return slices.ContainsFunc(status.Conditions, func(c eventingv1alpha2.Condition) bool {
			return c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "kyma.allowEventingManager=true")
		})
	})
}

func TestStreamOfEventingManagerCanBeUsedOnRequest(t *testing.T) {
	server := natstest.Start(t)
	kymaConsumer(t, server)
	w := newFixtureAt(t, server, server.URL(), func(o *Options) { o.AllowEventingManager = true })
	w.createSink()
	w.awaitReady(w.create("orders"))
}

func TestADeletedConsumerIsRecreatedAtOnce(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	for range 3 { // the sweeper would need more than a minute
		before, found := w.consumer(sub)
		require.True(t, found)
		require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DefaultStream, before.Name))
		w.awaitConsumer(sub, "it is back before anybody looks", func(after broker.Consumer, ok bool) bool {
			return ok && !after.Progress.Created.Equal(before.Progress.Created)
		})
	}
}

func TestEventsPublishedAfterStreamDeletionAreKept(t *testing.T) {
	losesNone(t, newFixture(t))
}

// The server may stop before it sends the stream's advisory, which follows those of its consumers.
func TestADeletedStreamIsCreatedAgainWithoutAnAdvisory(t *testing.T) {
	server := natstest.Start(t, natstest.WithAuthorization(t, `
		no_auth_user: all
		authorization: {users: [
			{user: all, password: all, permissions: {subscribe: {deny: "$JS.EVENT.ADVISORY.STREAM.DELETED.>"}}}
		]}`))
	losesNone(t, newFixtureAt(t, server, server.URL()))
}

func losesNone(t *testing.T, w *fixture) {
	t.Helper()
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	publisher := broker.NewPublisher(w.conn, broker.DefaultPublisherOptions())
	for round := range 3 {
		w.nats.DeleteStream(t, broker.DefaultStream)
		taken := uint64(0)
		require.Eventually(t, func() bool {
			event := cloudevent.Event{ID: strconv.Itoa(round) + "/" + strconv.FormatUint(taken, 10), Source: "shop", Type: "order.received.v1"}
			if publisher.Publish(t.Context(), &event) == nil {
				taken++
			}
			return taken > 20
		}, timeout, tick/10, "publishers are heard again")
		require.Eventually(t, func() bool { // NATS counts an event after it has confirmed it
			backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, routing.ConsumerName(sub.Namespace, sub.Name))
			return err == nil && taken == backlog.Total()
		}, timeout, tick)
	}
}

type fakeUnwanted struct {
	mu    sync.Mutex
	calls int
	takes time.Duration
	err   error
}

func (f *fakeUnwanted) DropUnwanted(context.Context, string) (uint64, error) {
	f.mu.Lock()
	f.calls++
	takes, err := f.takes, f.err
	f.mu.Unlock()
	time.Sleep(takes)
	return 7, err
}

func (f *fakeUnwanted) answer(takes time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes, f.err = takes, err
}

func (f *fakeUnwanted) called() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func TestUnwantedEventsAreDroppedPeriodically(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, soon := &fakeUnwanted{takes: 100 * time.Millisecond}, make(chan struct{}, 1)
		d := &dropper{unwanted: fake, soon: soon, dropped: newDropped(prometheus.NewRegistry()), log: logr.Discard()}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = d.Start(ctx) }()
		after := func(wait time.Duration, calls int) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			require.Equal(t, calls, fake.called())
		}
		after(time.Second, 1)
		after(dropInterval, 2)
		fake.answer(10*time.Second, errors.New("no answer"))
		after(dropInterval, 3)
		soon <- struct{}{}
		after(4*time.Minute, 3) // a slow pass is repeated rarely
		after(2*time.Minute, 4)
		fake.answer(0, nil)
		after(10*time.Minute, 16)
		soon <- struct{}{}
		after(time.Second, 17)
		require.InDelta(t, 17*7, testutil.ToFloat64(d.dropped), 0)
	})
}
