package subscription

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

// listing counts the objects that lists return.
type listing struct {
	client.Reader
	items int
}

func (l *listing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Reader.List(ctx, list, options...)
	l.items += meta.LenList(list)
	return err
}

// listed returns a client with a Subscription for each sink, in one namespace.
func listed(t *testing.T, count int) *listing {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for field, values := range indexers(routing.Policy{}) {
		builder.WithIndex(&eventingv1alpha2.Subscription{}, field, values)
	}
	for i := range count {
		builder.WithObjects(&eventingv1alpha2.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("sub-%d", i)},
			Spec: eventingv1alpha2.SubscriptionSpec{
				Sink: fmt.Sprintf("http://price-%d.shop.svc.cluster.local", i), Source: "shop", Types: []string{"order.received.v1"},
			},
		})
	}
	return &listing{Reader: builder.Build()}
}

func TestAServiceEnqueuesOnlyItsSubscriptionsByIndex(t *testing.T) {
	t.Parallel()
	reader := listed(t, 50)
	of := subscriptionsOf(reader, sinkIndex)
	require.Equal(t, []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "sub-7"}}},
		of(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price-7"}}))
	require.Equal(t, 1, reader.items)
	require.Empty(t, of(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "price-7"}}))
	require.Equal(t, 1, reader.items)
}

func TestALostConsumerIsLookedUpByItsName(t *testing.T) {
	t.Parallel()
	reader := listed(t, 50)
	var requested []types.NamespacedName
	l := &losses{reader: reader, request: func(_ context.Context, key types.NamespacedName) { requested = append(requested, key) }}
	require.NoError(t, l.restore(t.Context(), map[string]bool{routing.ConsumerName("shop", "sub-7"): true, "nobody's": true}))
	require.Equal(t, []types.NamespacedName{{Namespace: "shop", Name: "sub-7"}}, requested)
	require.Equal(t, 1, reader.items)
}

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
	shows("a Subscription that was never valid has no consumer", map[string]string{"": "0"})
	r.show(orders, []string{"one", "two"}, true)
	shows("it became ready", map[string]string{"one": "1", "two": "1"})
	r.show(orders, nil, false)
	shows("its spec became wrong", map[string]string{"one": "0", "two": "0"})
	r.show(orders, []string{"two"}, false)
	shows("a type less, and no sink", map[string]string{"two": "0"})
	r.forget(orders)
	shows("it is deleted", nil)
	r.forget(orders)
}
