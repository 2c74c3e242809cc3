package kube

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Settled has a handler act on creations and updates after a pause, with one request for all that come meanwhile. A wake creates a pod and
// writes the status of it and of its Deployment a dozen times, and reconciling each would take CPU from the pod that starts on the same machine.
func Settled(acts handler.EventHandler, pause time.Duration) handler.EventHandler {
	return settled{acts, pause}
}

type settled struct {
	handler.EventHandler
	pause time.Duration
}

// Create implements handler.EventHandler.
func (s settled) Create(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	s.EventHandler.Create(ctx, e, later{queue, s.pause})
}

// Update implements handler.EventHandler.
func (s settled) Update(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	s.EventHandler.Update(ctx, e, later{queue, s.pause})
}

// later adds requests after a pause. The queue merges those that wait.
type later struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	pause time.Duration
}

func (l later) Add(request reconcile.Request) { l.AddAfter(request, l.pause) }
