package subscription

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// A sweep of its own, because the controller's comes every half a minute.
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
	// sweep reports whether it requested a reconciliation. Other tests have left Subscriptions of their own.
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

// A bridge that delivers for a moment longer stores a retry after the others were purged.
func TestRetriesOfADeletedSubscriptionAreDroppedHoweverLateTheyWereStored(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	w.awaitReady(w.create("orders"))
	gone := types.NamespacedName{Namespace: w.namespace, Name: "gone"}
	name := routing.ConsumerName(gone.Namespace, gone.Name)
	consumer := broker.Consumer{Name: name, Subjects: []string{"kyma.shop.gone"}}
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DefaultStream, consumer))
	publisher := broker.NewPublisher(w.conn, broker.DefaultPublisherOptions())
	require.Eventually(t, func() bool { // the controller may be updating the stream, which does not answer then
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
