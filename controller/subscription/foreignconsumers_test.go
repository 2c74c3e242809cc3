package subscription

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestAPushConsumerThatKymaLeftIsWarnedOfOnce(t *testing.T) {
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
	require.Empty(t, said, "it keeps nothing yet")
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
		`# HELP rouse_controller_foreign_consumer_pending_events Events that a consumer keeps in the stream that is no Subscription's, as of the last sweep.
# TYPE rouse_controller_foreign_consumer_pending_events gauge
rouse_controller_foreign_consumer_pending_events{consumer="c00"} 101
rouse_controller_foreign_consumer_pending_events{consumer="c02"} 99
`)))
}
