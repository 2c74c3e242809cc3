package eventbridge

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/never"
)

// receiver verifies as whoever gets the deliveries does.
func receiver(t *testing.T, key string) *door.Door {
	t.Helper()
	opened, err := door.New(&v1alpha1.Door{Spec: v1alpha1.DoorSpec{
		Webhook: &v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeStandardWebhooks, SecretName: "partner"},
	}}, &door.Keys{Current: []byte(key)})
	require.NoError(t, err)
	return opened
}

func TestEventsWaitUntilTheirDeliveriesCanBeSigned(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	w := newFixture(t, loopback.Ready(sink.Address()))
	signed := func(keys *routing.SigningKeys) routing.Route {
		route := orders(sinkURL)
		route.Delivery.Webhook = &routing.Webhook{SecretName: "partner", Keys: keys}
		return route
	}
	w.routes.set(signed(nil))
	bridge := w.start(t)
	status, _ := bridge.publish(t, "1")
	require.Equal(t, http.StatusNoContent, status)
	never.Happens(t, func() bool { return len(sink.Requests()) > 0 }, time.Second, tick)

	first, second := "whsec_"+strings.Repeat("A", 32), "whsec_"+strings.Repeat("B", 32)
	w.routes.set(signed(&routing.SigningKeys{Current: []byte(first)}))
	require.Eventually(t, func() bool { return len(sink.Requests()) == 1 }, timeout, tick)
	request := sink.Requests()[0]
	verified, err := receiver(t, first).Verify(&door.Request{Header: request.Header, Body: request.Body}, time.Now())
	require.NoError(t, err)
	require.Regexp(t, "^evt_", verified.ID)
	ev, err := cloudevent.FromStructured(request.Body)
	require.NoError(t, err)
	require.Equal(t, "1", ev.ID)

	w.routes.set(signed(&routing.SigningKeys{Current: []byte(second), Previous: []byte(first)}))
	bridge.publish(t, "2")
	require.Eventually(t, func() bool { return len(sink.Requests()) == 2 }, timeout, tick)
	request = sink.Requests()[1]
	for _, key := range []string{first, second} { // a receiver changes its key when it likes
		_, err := receiver(t, key).Verify(&door.Request{Header: request.Header, Body: request.Body}, time.Now())
		require.NoError(t, err)
	}
}
