package subscription

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestEachSweepShowsTheBacklogsOfOurConsumers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := newMetrics(registry)
	consumer := func(name string, pending, ackPending uint64) broker.Consumer {
		return broker.Consumer{
			Name:     routing.ConsumerName("shop", name),
			Metadata: map[string]string{broker.MetadataNamespace: "shop", broker.MetadataName: name},
			Backlog:  broker.Backlog{Pending: pending, AckPending: ackPending},
		}
	}
	m.show([]broker.Consumer{consumer("orders", 5, 2), consumer("prices", 0, 0), {Name: "a-stranger", Backlog: broker.Backlog{Pending: 9}}})
	const head = "# HELP rouse_controller_backlog_events Events that wait for a Subscription's sink or are being delivered, as of the last sweep.\n" +
		"# TYPE rouse_controller_backlog_events gauge\n"
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(head+
		`rouse_controller_backlog_events{namespace="shop",subscription="orders"} 7
rouse_controller_backlog_events{namespace="shop",subscription="prices"} 0
`)))
	m.show([]broker.Consumer{consumer("prices", 1, 0)})
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(head+
		`rouse_controller_backlog_events{namespace="shop",subscription="prices"} 1
`)))
}

func TestReadinessIsShownForEachConsumerOfASubscription(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	r := newReadiness(registry, "sap")
	orders := types.NamespacedName{Namespace: "shop", Name: "orders"}
	shows := func(why string, values map[string]string) {
		t.Helper()
		var lines []string
		for _, consumer := range slices.Sorted(maps.Keys(values)) {
			lines = append(lines, `eventing_ec_subscription_status{consumer_name="`+consumer+`",eventing_backend="NATS_Jetstream",stream_name="sap",`+
				`subscription_name="orders",subscription_namespace="shop"} `+values[consumer]+"\n")
		}
		want := strings.Join(lines, "")
		if want != "" {
			want = "# HELP eventing_ec_subscription_status 1 while a Subscription is ready, 0 while it is not.\n" +
				"# TYPE eventing_ec_subscription_status gauge\n" + want
		}
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want)), why)
	}
	r.show(orders, nil, false)
	shows("what was never right has no consumer", map[string]string{"": "0"})
	r.show(orders, []string{"one", "two"}, true)
	shows("it became ready", map[string]string{"one": "1", "two": "1"})
	r.show(orders, nil, false)
	shows("its spec became wrong", map[string]string{"one": "0", "two": "0"})
	r.show(orders, []string{"two"}, false)
	shows("a type less, and no sink", map[string]string{"two": "0"})
	r.forget(orders)
	shows("it is gone", nil)
	r.forget(orders)
}
