package scaler

import (
	"context"
	"sync"
	"time"

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
	var port int32
	if len(routes) > 0 {
		port = routes[0].Port
	}
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
