package loopback

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// Endpoints are those of every Service, as a test sets them.
type Endpoints struct {
	mu      sync.Mutex
	current []routing.Endpoint
	changed chan struct{} // closed and replaced at each Set
}

// NewEndpoints starts with the given ones.
func NewEndpoints(endpoints ...routing.Endpoint) *Endpoints {
	return &Endpoints{current: endpoints, changed: make(chan struct{})}
}

// Ready is an endpoint that passes its readiness probe.
func Ready(address string) routing.Endpoint { return routing.Endpoint{Address: address, Ready: true} }

// StartingSink is an endpoint of a Function that was just scheduled.
func StartingSink(address string) routing.Endpoint {
	return routing.Endpoint{Address: address, Function: true}
}

// Set replaces all endpoints.
func (e *Endpoints) Set(endpoints ...routing.Endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current = endpoints
	close(e.changed)
	e.changed = make(chan struct{})
}

// Watch calls apply at once and after each Set until ctx ends.
func (e *Endpoints) Watch(
	ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint),
) error {
	for {
		e.mu.Lock()
		current, changed := e.current, e.changed
		e.mu.Unlock()
		apply(current)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
