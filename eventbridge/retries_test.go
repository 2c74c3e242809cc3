package eventbridge

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestRetriesChangeWhereASubscriptionSaysNothing(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	d := &deliveries{options: options}
	none, own := d.retriesOf(routing.Delivery{}), d.retriesOf(routing.Delivery{MaxAttempts: 3, Backoff: routing.Backoff{Delay: time.Minute}})
	attempts, backoff := none()
	require.Equal(t, options.Dispatch.MaxAttempts, attempts)
	require.Equal(t, options.Dispatch.Backoff, backoff)

	d.retries.Store(&Retries{MaxAttempts: 5, Backoff: time.Second, MaxBackoff: 2 * time.Second})
	attempts, backoff = none()
	require.Equal(t, 5, attempts)
	require.Equal(t, dispatch.Backoff{Base: time.Second, Max: 2 * time.Second, Jitter: options.Dispatch.Backoff.Jitter}, backoff)
	attempts, backoff = own()
	require.Equal(t, 3, attempts)
	require.Equal(t, time.Minute, backoff.Base)

	d.retries.Store(&Retries{Backoff: time.Hour})
	_, backoff = none()
	require.Equal(t, time.Hour, backoff.Max, "no wait is longer than the longest")
	d.retries.Store(&Retries{})
	attempts, _ = none()
	require.Equal(t, options.Dispatch.MaxAttempts, attempts)
}

func TestChangedRetriesHoldForDeliveriesThatAreUnderWay(t *testing.T) {
	t.Parallel()
	failing := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := newFixture(t, loopback.Ready(failing.Address()))
	routes := make(steps)
	r := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.MaxAttempts = 1000
		options.Dispatch.Backoff = dispatch.Backoff{Base: 10 * time.Millisecond, Max: 10 * time.Millisecond}
	})
	routes.apply(orders(sinkURL))
	r.publishMany(t, 0, 1)
	failing.Await(t, 3)
	r.bridge.SetRetries(Retries{MaxAttempts: 1})
	require.Eventually(t, func() bool { return w.deadLetters(t) == 1 }, timeout, tick, "the next attempt is the last")
}
