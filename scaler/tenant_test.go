package scaler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

func TestScalerIsolatesNamespaces(t *testing.T) {
	t.Parallel()
	theirs := routeTo("bank", "order", "orders", orderPlaced)
	// A Subscription whose sink lies in another namespace counts for no Function.
	crossing := routeTo("bank", "order", "crossing", "kyma.bank.crossing.v1")
	crossing.Service = types.NamespacedName{Namespace: shop, Name: "order"}
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(theirs, broker.Backlog{Pending: 50})
		r.broker.set(crossing, broker.Backlog{Pending: 50})
		object := r.keda("order", nil)
		requireAnswer(t, r, 0, false)

		r.broker.publish(orderPlaced)
		r.broker.publish("kyma.bank.crossing.v1")
		advance(30 * time.Second)
		require.Zero(t, object.Replicas())

		for _, key := range []string{"namespace", "consumer", "stream", "subscription"} {
			_, err := r.client.IsActive(t.Context(), r.ref("order", key, theirs.Consumer))
			require.Equal(t, codes.InvalidArgument, status.Code(err), key)
		}
		_, err := r.client.IsActive(t.Context(), r.ref("bank/order"))
		require.Equal(t, codes.InvalidArgument, status.Code(err))

		own := r.ref("order")
		own.Namespace = "bank"
		value, active, err := r.ask(own)
		require.NoError(t, err)
		require.True(t, active)
		require.InDelta(t, 51, value, 0)
	}, theirs, crossing)
}

func TestSubscriptionsElsewhereWakeAFunctionIfTheOperatorAllowsThem(t *testing.T) {
	t.Parallel()
	crossing := routeTo("bank", "order", "crossing", "kyma.bank.crossing.v1")
	crossing.Service = types.NamespacedName{Namespace: shop, Name: "order"}
	foreign := routeTo("bank", "order", "foreign", "kyma.bank.foreign.v1")
	foreign.Service, foreign.External = types.NamespacedName{}, true
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.options.Sinks.AllowedSinkHosts = []string{"*.svc.cluster.local"}
		r.broker.create(crossing, foreign)
		r.routes.post([]routing.Route{crossing, foreign})
		r.start()
		r.broker.set(crossing, broker.Backlog{Pending: 50})
		requireAnswer(t, r, 50, true)
	})
}

func TestAnUnqueriedFunctionIsForgotten(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		requireAnswer(t, r, 0, false)
		object := r.keda("order", func(o *kedatest.Options) { o.PollingInterval = 24 * time.Hour })
		advance(2 * time.Hour)
		require.Equal(t, 1, r.broker.listening(), "a stream is interest enough")
		_ = object

		other := r.ref("order", "activationLagThreshold", "3")
		_, _, err := r.ask(other)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, r.broker.listening())
		advance(16 * time.Minute)
		require.Equal(t, 1, r.broker.listening())
		_, _, err = r.ask(other)
		require.NoError(t, err, "it is followed again when asked for")
	}, order)
}
