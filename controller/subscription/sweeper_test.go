package subscription

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// A separate sweep, because the controller's runs only every 30 seconds.
func TestASweepFindsConsumersThatOthersChanged(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	requests := make(chan event.GenericEvent, 10_000)
	dog, _ := newWatchdog(w.conn, events.NewFakeRecorder(10))
	s := &sweeper{
		reader: w, statuses: w, consumers: w.conn, streams: w.conn, options: DefaultOptions().Stream, requests: requests,
		metrics: dog.metrics, watchdog: dog, foreignConsumers: newForeignConsumers(prometheus.NewRegistry(), logr.Discard()), log: logr.Discard(),
	}
	key := client.ObjectKeyFromObject(sub)
	// sweep reports whether it requested a reconciliation. Other tests leave Subscriptions behind.
	sweep := func() (asked bool) {
		require.Eventually(t, func() bool { return s.sweep(t.Context(), false) == nil }, timeout, tick)
		for len(requests) > 0 {
			asked = client.ObjectKeyFromObject((<-requests).Object) == key || asked
		}
		return asked
	}
	require.False(t, sweep(), "all is as it ought to be")
	require.Contains(t, dog.watches, key)

	consumer, _ := w.consumer(sub)
	consumer.MaxAckPending = 1
	notices := func(trouble func()) bool {
		for range 5 { // the running controller may have been faster
			if trouble(); sweep() {
				return true
			}
		}
		return false
	}
	require.True(t, notices(func() {
		require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DefaultStream, consumer))
	}))
	require.NotContains(t, dog.watches, key, "it is put right first")
	for _, stream := range []string{broker.DefaultStream, broker.RetryStream, broker.DeadLetterStream} {
		w.nats.DeleteStream(t, stream)
	}
	sweep()
	_, found := w.consumer(sub)
	require.True(t, found, "the stream is made again with its consumers")
	_, err := w.conn.WaitingRetries(t.Context())
	require.NoError(t, err)
	_, err = w.conn.DeadLetters(t.Context(), routing.Route{}.Subscription)
	require.NoError(t, err)
}

// A bridge that still delivers for a moment stores a retry after the others were purged.
func TestRetriesOfADeletedSubscriptionAreDroppedHoweverLateTheyWereStored(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	w.awaitReady(w.create("orders"))
	gone := types.NamespacedName{Namespace: w.namespace, Name: "gone"}
	name := routing.ConsumerName(gone.Namespace, gone.Name)
	consumer := broker.Consumer{Name: name, Subjects: []string{"kyma.shop.gone"}}
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DefaultStream, consumer))
	publisher := broker.NewPublisher(w.conn, broker.DefaultPublisherOptions())
	require.Eventually(t, func() bool { // the controller may be updating the stream, which does not respond meanwhile
		return publisher.Publish(t.Context(), &cloudevent.Event{ID: "1", Source: "shop", Type: "gone"}) == nil
	}, timeout, tick)
	ctx, stop := context.WithCancel(t.Context())
	source := broker.NewSource(w.conn, broker.DefaultStream, name, gone, 1)
	require.NoError(t, source.Receive(ctx, nil, func(m *broker.Message) {
		require.NoError(t, m.Retry(ctx, time.Hour))
		stop()
	}))
	require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DefaultStream, name))
	waiting, err := w.conn.WaitingRetries(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, waiting[gone])

	w.nats.Restart() // the controller sweeps when it is connected again
	require.Eventually(t, func() bool {
		waiting, err := w.conn.WaitingRetries(t.Context())
		return err == nil && waiting[gone] == 0
	}, timeout, tick)
}

func TestAnAbandonedPushConsumerIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	theirs := kymaConsumer(t, server)
	conn := connectTo(t, server)
	require.NoError(t, conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.ConsumerOf(routing.Route{
		Subscription: routing.Route{}.Subscription, Consumer: "c1", Subjects: []string{"kyma.a.b"},
	})))
	var said []string
	s := newForeignConsumers(prometheus.NewPedanticRegistry(), funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{}))
	inspect := func() {
		t.Helper()
		consumers, err := conn.Consumers(t.Context(), broker.DefaultStream)
		require.NoError(t, err)
		s.show(consumers)
	}
	require.NoError(t, conn.DeleteConsumer(t.Context(), broker.DefaultStream, "c1"))
	inspect()
	require.Empty(t, said, "it holds no events yet")
	server.Publish(t, "kyma.a.b", nil)
	server.Publish(t, "kyma.a.b", nil)
	require.Eventually(t, func() bool {
		inspect()
		return testutil.CollectAndCount(s.kept) == 1
	}, timeout, tick)
	inspect()
	require.Len(t, said, 1)
	require.Contains(t, said[0], "delete it in NATS")
	require.Contains(t, said[0], routing.TypeConsumerName("shop/orders/kyma.a.b"))
	theirs.Delete(t)
	inspect()
	require.Zero(t, testutil.CollectAndCount(s.kept))
}

func TestForeignConsumersAreShownByNameWithinBounds(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	s := newForeignConsumers(registry, logr.Discard())
	var consumers []broker.Consumer
	for i := range maxForeignConsumers + 3 {
		consumers = append(consumers, broker.Consumer{Name: fmt.Sprintf("c%02d", i), Backlog: broker.Backlog{Pending: uint64(100 - i), AckPending: 1}})
	}
	ours := broker.Consumer{
		Name: routing.ConsumerName("shop", "orders"), Backlog: broker.Backlog{Pending: 1000},
		Metadata: map[string]string{broker.MetadataNamespace: "shop", broker.MetadataName: "orders"},
	}
	s.show(append(consumers, ours))
	require.Equal(t, maxForeignConsumers+1, testutil.CollectAndCount(s.kept))
	require.InDelta(t, 101, testutil.ToFloat64(s.kept.WithLabelValues("c00")), 0)
	require.InDelta(t, 81+80+79, testutil.ToFloat64(s.kept.WithLabelValues(otherForeignConsumers)), 0)
	require.Len(t, s.warned, maxForeignConsumers)
	consumers[0].Received, consumers[1].Backlog = true, broker.Backlog{}
	s.show(consumers[:3])
	require.Equal(t, map[string]bool{"c02": true}, s.warned)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(
		`# HELP rouse_controller_foreign_consumer_pending_events Events that a consumer without a Subscription keeps in the stream, as of the last sweep.
# TYPE rouse_controller_foreign_consumer_pending_events gauge
rouse_controller_foreign_consumer_pending_events{consumer="c00"} 101
rouse_controller_foreign_consumer_pending_events{consumer="c02"} 99
`)))
}
