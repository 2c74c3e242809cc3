package eventbridge

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// hostileRoute is that of a Subscription in another namespace, to the events of the type evil.v1.
func hostileRoute(name string) routing.Route {
	route := orders(sinkURL)
	route.Subscription = types.NamespacedName{Namespace: "evil", Name: name}
	route.Consumer = routing.ConsumerName("evil", name)
	route.Redelivery = routing.RedeliverySubject(route.Consumer)
	route.Subjects = []string{routing.Subject("shop", "evil.v1", false), route.Redelivery}
	route.MaxInFlight = eventingv1alpha2.LargestMaxInFlight
	return route
}

// Four Subscriptions of one namespace get 100 events of 60 KiB each, 23 MiB together, and their sink hangs.
func TestANamespaceTakesHalfOfTheDeliveryMemoryAtMost(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	var served atomic.Int32
	sink := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Type") != "evil.v1" {
			served.Add(1)
			return
		}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	routes := []routing.Route{orders(sinkURL)}
	for _, name := range []string{"a", "b", "c", "d"} {
		routes = append(routes, hostileRoute(name))
		ensureConsumer(t, w.conn, hostileRoute(name), w.ackWait)
	}
	w.routes.set(routes...)
	body := []byte(strings.Repeat("x", 60<<10))
	for i := range 100 {
		require.NoError(t, w.store.Publish(t.Context(), &cloudevent.Event{
			ID: "evil-" + strconv.Itoa(i), Source: "shop", Type: "evil.v1", DataContentType: "text/plain", Data: body,
		}))
	}
	var taken func() float64
	bridge := w.start(t, func(deps *Deps, options *Options) {
		options.DeliveryBytes = size
		options.Dispatch.DrainTimeout = 0
		registry := deps.Registry
		taken = func() float64 {
			families, err := registry.Gather()
			require.NoError(t, err)
			for _, family := range families {
				if family.GetName() == "rouse_eventbridge_delivery_bytes" {
					return family.GetMetric()[0].GetGauge().GetValue() // of the events
				}
			}
			return 0
		}
	})
	require.Eventually(t, func() bool { return taken() > size/4 }, timeout, tick)
	bridge.publishMany(t, 0, 20)
	require.Eventually(t, func() bool { return served.Load() == 20 }, timeout, tick)
	require.LessOrEqual(t, taken(), float64(size*3/4+len(routes)*ownDeliveryBytes), "their half, half of what is left, and what each has of its own")
}

func TestASourceWithoutMessagesNeedsOnlyTheBytesOfItsSubscription(t *testing.T) {
	t.Parallel()
	require.Equal(t, broker.IdleMemory, ownDeliveryBytes)
}
