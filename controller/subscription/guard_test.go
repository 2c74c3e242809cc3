package subscription

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/migration"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const movedSubject = "kyma.shop.order.received.v1"

func orderName() types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: migration.ConfigMap}
}

// newMoved is a fixture whose NATS has consumers of Kyma for Subscriptions of these names.
func newMoved(t *testing.T, namespace string, subscriptions ...string) *fixture {
	t.Helper()
	server := natstest.Start(t)
	for _, name := range subscriptions {
		server.AddKymaConsumer(t, broker.DefaultStream, namespace, name, movedSubject)
	}
	server.Publish(t, movedSubject, []byte("1"))
	w := newFixtureAt(t, server, server.URL(), func(o *Options) { o.Migration = orderName() })
	t.Cleanup(func() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: orderName().Namespace, Name: orderName().Name}}
		require.NoError(t, client.IgnoreNotFound(w.Delete(context.WithoutCancel(t.Context()), object)))
	})
	w.namespace = namespace
	w.createSink()
	return w
}

// order writes what rouse migrate asks for.
func (w *fixture) order(order migration.Order) {
	w.t.Helper()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: orderName().Namespace, Name: orderName().Name}, Data: map[string]string{migration.Key: order.String()},
	}
	if w.Update(w.t.Context(), object) != nil {
		object.ResourceVersion = ""
		require.NoError(w.t, w.Create(w.t.Context(), object))
	}
}

// atKyma reports whether Kyma has a consumer for a Subscription of the namespace.
func (w *fixture) atKyma(subscription string) bool {
	consumers, err := w.conn.Consumers(w.t.Context(), broker.DefaultStream)
	require.NoError(w.t, err)
	return slices.ContainsFunc(consumers, func(c broker.Consumer) bool {
		return c.OfKyma() && c.Description == w.namespace+"/"+subscription+"/"+movedSubject
	})
}

func TestSubscriptionsMoveToRouseAndBackOnRequest(t *testing.T) {
	w := newMoved(t, cluster.Environment(t).Namespace(t), "orders", "gone")
	sub := w.create("orders")
	gone := routing.TypeConsumerName(w.namespace + "/gone/" + movedSubject)

	w.order(migration.Order{Direction: migration.ToRouse, Abandoned: []string{gone}})
	w.awaitReady(sub)
	require.False(t, w.atKyma("orders"))
	require.False(t, w.atKyma("gone"))
	backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, routing.ConsumerName(w.namespace, "orders"))
	require.NoError(t, err)
	require.EqualValues(t, 1, backlog.Total(), "what waited at Kyma's waits for Rouse")

	w.order(migration.Order{Direction: migration.ToKyma})
	w.awaitStatus(sub, "it says where it is", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return slices.ContainsFunc(status.Conditions, func(c eventingv1alpha2.Condition) bool { return c.Message == errHandedBack.Error() })
	})
	require.Eventually(t, func() bool {
		_, ours := w.consumer(sub)
		return w.atKyma("orders") && !ours
	}, timeout, tick, "the next sweep has handed them back")
	back := w.nats.OpenPushConsumer(t, broker.DefaultStream, routing.TypeConsumerName(w.namespace+"/orders/"+movedSubject))
	require.Equal(t, []string{"1"}, back.Settle(t, 1))

	w.order(migration.Order{Direction: migration.ToRouse})
	require.Eventually(t, func() bool { return !w.atKyma("orders") }, timeout, tick)
	w.awaitReady(sub)
}

func TestNothingMovesWithoutAnOrder(t *testing.T) {
	w := newMoved(t, cluster.Environment(t).Namespace(t), "orders")
	sub := w.create("orders")
	w.awaitStatus(sub, "it is refused", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return !status.Ready && len(status.Conditions) > 0
	})
	require.True(t, w.atKyma("orders"))
}

func TestAnOrderThatCannotBeReadMovesNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", `{"direction":"elsewhere"}`} {
		_, err := migration.Parse(text)
		require.ErrorContains(t, err, migration.Key)
	}
	order, err := migration.Parse("")
	require.NoError(t, err)
	require.Empty(t, order.Direction)
	order, err = migration.Parse(migration.Order{Direction: migration.ToKyma, Abandoned: make([]string, migration.MaxAbandoned+1)}.String())
	require.NoError(t, err)
	require.Len(t, order.Abandoned, migration.MaxAbandoned)
}
