package scaler

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/scaler/kedaspans"
)

// Routes lists the Subscriptions.
type Routes interface {
	// Watch hands the full set to apply, now and after each change, until ctx
	// ends.
	Watch(ctx context.Context, apply func([]routing.Route)) error
}

// Endpoints watches where a Service can be reached.
type Endpoints interface {
	// Watch hands the endpoints of one port to apply, now and after each
	// change, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// Backlogs reads how much waits for a durable consumer.
type Backlogs interface {
	// Backlog fails with broker.ErrConsumerNotFound when there is no such
	// consumer, and with another error when that cannot be said.
	Backlog(ctx context.Context, stream, consumer string) (broker.Backlog, error)
	// DetachedCallsOf counts the calls of a Subscription that go on and are not in
	// its backlog any more.
	DetachedCallsOf(ctx context.Context, subscription types.NamespacedName) (uint64, error)
}

// Listener receives publishes.
type Listener interface {
	// OnPublish calls notify once, at the first message on any of the
	// subjects. stop may be called at any time, and more than once.
	OnPublish(subjects []string, notify func()) (stop func(), err error)
}

// Connection reports whether the broker can be reached.
type Connection interface {
	// Connected answers from memory.
	Connected() bool
	// OnConnect has notify called after each connect.
	OnConnect(notify func())
}

// Registry takes metrics and gives them back for scraping.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Deps is what a Scaler works with. All fields but Tracer are required.
type Deps struct {
	Routes     Routes
	Endpoints  Endpoints
	Backlogs   Backlogs
	Listener   Listener
	Connection Connection
	Registry   Registry
	Tracer     *kedaspans.Tracer // nil makes no spans
	Log        logr.Logger
}
