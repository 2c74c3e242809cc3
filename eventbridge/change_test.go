package eventbridge

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// hanging is a sink that answers requests to /in when it is released, and others at once.
func hanging(t *testing.T) (sink *loopback.Sink, called chan string, release func()) {
	t.Helper()
	called, answer := make(chan string, 100), make(chan struct{})
	sink = loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		called <- r.URL.Path + " " + r.Header.Get("Ce-Id")
		if r.URL.Path != "/in" {
			return
		}
		select {
		case <-answer:
		case <-r.Context().Done(): // cut
			called <- "cut"
		}
	})
	return sink, called, func() { close(answer) }
}

func TestEventsGoToTheNewSinkRightAfterItsChange(t *testing.T) {
	t.Parallel()
	const running = 9 // of ten that may be
	sink, called, release := hanging(t)
	w := newFixture(t, loopback.Ready(sink.Address()))
	routes := make(steps)
	bridge := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.DrainTimeout = time.Millisecond
	})
	routes.apply(orders(sinkURL))
	bridge.publishMany(t, 0, running)
	for range running {
		require.Contains(t, <-called, "/in ")
	}
	moved := orders(strings.Replace(sinkURL, "/in", "/moved", 1))
	routes.apply(moved)
	for i := range 20 {
		bridge.publishMany(t, 1000+i, 1)
		require.Equal(t, "/moved "+strconv.Itoa(1000+i), <-called, "while the calls before hang")
	}
	release()
	w.backlogIs(t, 0, 0)
	require.Empty(t, called, "no call was cut, and no event sent twice")
	for id, times := range sink.Deliveries() {
		require.Equal(t, 1, times, id)
	}
}

func TestCallsThatOutlastTheirSubscriptionAreCutWhenTheDrainIsOver(t *testing.T) {
	t.Parallel()
	sink, called, release := hanging(t)
	defer release()
	w := newFixture(t, loopback.Ready(sink.Address()))
	routes := make(steps)
	bridge := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.DrainTimeout = time.Millisecond
	})
	routes.apply(orders(sinkURL))
	bridge.publishMany(t, 0, 1)
	require.Equal(t, "/in 0", <-called)
	routes.apply(orders(strings.Replace(sinkURL, "/in", "/moved", 1)))
	bridge.publishMany(t, 1, 1)
	require.Equal(t, "/moved 1", <-called)
	routes <- nil
	require.Equal(t, "cut", <-called)
	require.Eventually(t, func() bool {
		_, metrics := get(t, bridge.metricsURL)
		return !strings.Contains(metrics, `rouse_eventbridge_deliveries_in_flight{namespace="shop"`)
	}, timeout, tick, "its series are gone")
}
