package scaler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// rewatchPause parts two attempts to watch after one failed.
const rewatchPause = time.Second

// endpointFollower keeps one watch on the endpoints of a Function. It belongs to
// the Function's loop.
type endpointFollower struct {
	function *function

	port   int32 // 0 while nothing is watched
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// follow watches the port that the routes deliver to. All Subscriptions of a
// Function reach the same pods, so one port shows whether there are any.
func (e *endpointFollower) follow(ctx context.Context, routes []routing.Route) {
	port := e.function.port(routes)
	if port == e.port {
		return
	}
	e.stop()
	e.port = port
	if port == 0 {
		e.function.setEndpoints(nil)
		return
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.done.Go(func() { e.function.watchEndpoints(ctx, port) })
}

// port is 0 where nothing leads to the Function.
func (f *function) port(routes []routing.Route) int32 {
	switch {
	case f.countsHTTP(): // which also a Function without Subscriptions has
		return activation.ServicePort
	case len(routes) > 0:
		return routes[0].Port
	}
	return 0
}

func (e *endpointFollower) stop() {
	if e.cancel != nil {
		e.cancel()
	}
	e.done.Wait()
}

func (f *function) watchEndpoints(ctx context.Context, port int32) {
	for ctx.Err() == nil {
		err := f.deps.Endpoints.Watch(ctx, f.target.function, port, f.setEndpoints)
		if err != nil && ctx.Err() == nil {
			f.log.Error(err, "cannot watch endpoints", "port", port)
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

// setEndpoints records where the Function can be reached.
func (f *function) setEndpoints(endpoints []routing.Endpoint) {
	staying := slices.DeleteFunc(slices.Clone(endpoints), func(e routing.Endpoint) bool { return e.Terminating })
	ready := slices.ContainsFunc(staying, func(e routing.Endpoint) bool { return e.Ready })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints = staying
	if !f.located {
		f.located = true
		close(f.locatedFirst)
	}
	if ready == f.ready {
		return
	}
	f.ready = ready
	if !ready {
		f.lostAt = time.Now()
	}
	if ready && f.starting {
		f.metrics.ready.Observe(time.Since(f.activity.edge.at).Seconds())
		f.starting = false
	}
	f.broadcast()
}
