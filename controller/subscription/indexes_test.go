package subscription

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
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

// listed has a Subscription for each of some sinks, in one namespace.
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

func TestAServiceConcernsTheSubscriptionsThatLeadToItAndReadsNoOthers(t *testing.T) {
	t.Parallel()
	reader := listed(t, 50)
	of := subscriptionsOf(reader)
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
