package sink

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// Endpoints watches where a Service can be reached.
type Endpoints interface {
	// Watch calls apply with all endpoints of the Service's port, at once and after each change, one call
	// at a time, until ctx ends. Endpoints that are not ready are among them.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// Openness shows whether a gate is open.
type Openness interface {
	// Set is called with 1 when the gate opens and with 0 when it closes.
	Set(value float64)
}

// Deps are what a Sink works with.
type Deps struct {
	Network   *Network
	Endpoints Endpoints // not asked about an external sink
	Openness  Openness  // of the gate; may be nil
	Budget    Budget    // for large replies; nil for as much as they take
	Log       logr.Logger
}
