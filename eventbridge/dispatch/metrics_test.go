package dispatch_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
)

const kymaSink = "http://price.shop.svc.cluster.local"

func TestDeliveriesAreCountedUnderKymasNames(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	connected := true
	metrics := dispatch.NewKymaMetrics(registry, func() bool { return connected })
	orders := dispatch.Subscription{Namespace: "shop", Name: "orders"}
	bound := metrics.Bind(orders, kymaSink, []dispatch.KymaType{{Original: "order>.v1", Clean: "order.v1", Consumer: "c1"}})
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP eventing_ec_event_type_subscribed_total 1 for each type that a Subscription takes.
# TYPE eventing_ec_event_type_subscribed_total counter
eventing_ec_event_type_subscribed_total{consumer_name="c1",event_type="order.v1",subscription_name="orders",subscription_namespace="shop"} 1
# HELP eventing_ec_health 1 while the process is connected to NATS.
# TYPE eventing_ec_health gauge
eventing_ec_health 1
`)), "what is not counted has no series")

	var attempts sync.WaitGroup
	for range 8 {
		attempts.Go(func() { bound.Attempted("order>.v1", 204, 3*time.Millisecond) })
	}
	attempts.Wait()
	bound.Attempted("order>.v1", 0, time.Second)
	connected = false
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP eventing_ec_health 1 while the process is connected to NATS.
# TYPE eventing_ec_health gauge
eventing_ec_health 0
# HELP eventing_ec_nats_delivery_per_subscription_total Delivery attempts by the sink's answer.
# TYPE eventing_ec_nats_delivery_per_subscription_total counter
eventing_ec_nats_delivery_per_subscription_total{consumer_name="c1",event_type="order>.v1",response_code="204",sink="`+kymaSink+`",subscription_name="orders",subscription_namespace="shop"} 8
eventing_ec_nats_delivery_per_subscription_total{consumer_name="c1",event_type="order>.v1",response_code="500",sink="`+kymaSink+`",subscription_name="orders",subscription_namespace="shop"} 1
`), "eventing_ec_health", "eventing_ec_nats_delivery_per_subscription_total"))
	require.Equal(t, 2, testutil.CollectAndCount(registry, "eventing_ec_nats_subscriber_dispatch_duration_seconds"))

	metrics.Bind(orders, kymaSink, []dispatch.KymaType{{Original: "order.v2", Clean: "order.v2", Consumer: "c2"}})
	require.Equal(t, 1, testutil.CollectAndCount(registry, "eventing_ec_event_type_subscribed_total"), "of the type that is left")
	metrics.Forget(orders)
	require.Equal(t, 1, testutil.CollectAndCount(registry), "health alone is left")
}

func TestCountingAnAttemptAllocatesNothing(t *testing.T) {
	metrics := dispatch.NewKymaMetrics(prometheus.NewRegistry(), func() bool { return true })
	bound := metrics.Bind(dispatch.Subscription{Namespace: "shop", Name: "orders"}, kymaSink, []dispatch.KymaType{{Original: "order.v1"}})
	bound.Attempted("order.v1", 204, time.Millisecond)
	require.Zero(t, testing.AllocsPerRun(100, func() { bound.Attempted("order.v1", 204, time.Millisecond) }))
}
