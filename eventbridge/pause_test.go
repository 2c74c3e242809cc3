package eventbridge

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestAPausedSubscriptionKeepsItsEvents(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Paused = true
	w.routes.set(route)
	bridge := w.start(t)
	bridge.publishMany(t, 0, 5)
	w.backlogIs(t, 5, 0)
	require.Empty(t, sink.Requests())
	route.Paused = false
	w.routes.set(route)
	w.backlogIs(t, 0, 0)
	require.Len(t, sink.Requests(), 5)
}

// steps are Routes that take the next set once the one before is applied.
type steps chan []routing.Route

func (s steps) Watch(ctx context.Context, apply func([]routing.Route)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case routes := <-s:
			apply(routes)
		}
	}
}

// apply returns when the bridge has applied the route.
func (s steps) apply(route routing.Route) {
	s <- []routing.Route{route}
	s <- []routing.Route{route}
}

// pausing is a fixture whose Subscription is paused while the sink works on its only event.
func pausing(t *testing.T, status int) (w *fixture, sink *loopback.Sink, routes steps, release func()) {
	t.Helper()
	called, answer := make(chan struct{}, 10), make(chan struct{})
	sink = loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		called <- struct{}{}
		<-answer
		w.WriteHeader(status)
	})
	w, routes = newFixture(t, loopback.Ready(sink.Address())), make(steps)
	bridge := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.MaxAttempts = 2
	})
	route := orders(sinkURL)
	routes.apply(route)
	bridge.publishMany(t, 0, 1)
	<-called
	route.Paused = true
	routes.apply(route)
	return w, sink, routes, func() { close(answer) }
}

func TestACallThatRunsWhenItsSubscriptionIsPausedIsFinished(t *testing.T) {
	t.Parallel()
	w, sink, _, release := pausing(t, http.StatusOK)
	w.backlogIs(t, 0, 1)
	release()
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(1), sink.Deliveries())
}

func TestARetryThatComesDueDuringAPauseWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	w, sink, routes, release := pausing(t, http.StatusInternalServerError)
	release()
	w.backlogIs(t, 1, 0)
	require.Equal(t, once(1), sink.Deliveries())
	routes.apply(orders(sinkURL))
	w.backlogIs(t, 0, 0)
	require.Equal(t, 1, w.deadLetters(t), "the attempt before the pause does not count")
	require.Equal(t, map[string]int{"0": 2}, sink.Deliveries())
}
