package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/internal/fair"
)

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 1000 * time.Second
)

// NewController begins a controller whose workers take objects of all namespaces in turn. Every controller begins with it.
func NewController(mgr ctrl.Manager, options controller.Options) *builder.Builder {
	return ctrl.NewControllerManagedBy(mgr).WithOptions(inTurn(options))
}

func inTurn(options controller.Options) controller.Options {
	options.NewQueue = newQueue
	if options.RateLimiter == nil {
		// For each object alone. The usual one has a limit for all of them, so that many that fail delay everybody's retries.
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
	}
	return options
}

// newQueue returns a plain work queue whose namespaces take turns. It takes the place of controller-runtime's priority queue, which knows
// no namespaces, and may hang at the end of the process before version 0.25
// (https://github.com/kubernetes-sigs/controller-runtime/issues/3538).
func newQueue(
	name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: &turns{}})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name, Queue: ready,
		}),
	})
}

// turns are the requests that are ready, namespaces in turn. The work queue has each of them once, and a lock around all methods.
type turns struct {
	requests fair.Queue[reconcile.Request]
}

// Touch implements workqueue.Queue: a request that comes again keeps its place.
func (t *turns) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (t *turns) Push(request reconcile.Request) { t.requests.Push(request.Namespace, request) }

// Len implements workqueue.Queue.
func (t *turns) Len() int { return t.requests.Len() }

// Pop implements workqueue.Queue, which calls it only when there is a request.
func (t *turns) Pop() reconcile.Request {
	request, _ := t.requests.Pop()
	return request
}
