package kube

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/internal/fair"
)

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 1000 * time.Second
)

// NewController returns the builder of a controller whose workers process objects of all namespaces in turn. Every
// controller uses it.
func NewController(mgr ctrl.Manager, options controller.Options) *builder.Builder {
	return ctrl.NewControllerManagedBy(mgr).WithOptions(inTurn(options))
}

func inTurn(options controller.Options) controller.Options {
	options.NewQueue = newQueue
	if options.RateLimiter == nil {
		// The default has an additional limit for all objects together, so that many failing objects delay the retries
		// of all.
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
	}
	return options
}

// newQueue returns a plain work queue whose namespaces take turns. It replaces controller-runtime's priority queue,
// which does not distinguish namespaces, and may hang at the end of the process before version 0.25
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

// turns are the ready requests, namespaces in turn. The work queue removes duplicates, and locks all methods.
type turns struct {
	requests fair.Queue[reconcile.Request]
}

// Touch implements workqueue.Queue: a repeated request keeps its place.
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

// ChangedOrDiffers passes creations and deletions, updates that change more than an object's status, and updates for
// which differs returns true. It is for owned objects whose status changes often and rarely matters.
func ChangedOrDiffers(differs func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return metadataChanged(e.ObjectOld, e.ObjectNew) || differs(e.ObjectOld, e.ObjectNew)
		},
	}
}

// metadataChanged reports whether more than the status differs. The generation represents the spec.
func metadataChanged(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() ||
		before.GetGeneration() != after.GetGeneration() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!reflect.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}

// ForeignError means that an object of the wanted name belongs to another owner.
type ForeignError struct {
	// Kind and Name are the object's.
	Kind, Name string
	// Owner describes the owner.
	Owner string
}

// Error returns the owner of the object and the remedy.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s already exists and belongs to %s; it is left as it is. Delete it or choose another name",
		e.Kind, e.Name, e.Owner)
}

// PredecessorError means that an object of the wanted name belonged to an
// earlier object of the owner's name and is about to be garbage collected.
type PredecessorError struct {
	// Kind and Name are the object's.
	Kind, Name string
}

// Error names the object whose deletion is awaited.
func (e *PredecessorError) Error() string {
	return fmt.Sprintf("%s %s of the deleted predecessor is still being removed", e.Kind, e.Name)
}

// CheckOwner returns a *ForeignError or a *PredecessorError if object must not be written on behalf of owner, which is
// of the given kind.
func CheckOwner(object metav1.Object, objectKind string, owner metav1.Object, ownerKind schema.GroupKind) error {
	controller := metav1.GetControllerOf(object)
	switch {
	case controller == nil:
		return &ForeignError{Kind: objectKind, Name: object.GetName(), Owner: describeOwner(object)}
	case controller.UID == owner.GetUID():
		return nil
	case schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind() == ownerKind &&
		controller.Name == owner.GetName():
		return &PredecessorError{Kind: objectKind, Name: object.GetName()}
	default:
		return &ForeignError{
			Kind: objectKind, Name: object.GetName(), Owner: controller.Kind + " " + controller.Name,
		}
	}
}

// describeOwner describes the owner of an object without a controller.
func describeOwner(object metav1.Object) string {
	if owners := object.GetOwnerReferences(); len(owners) > 0 {
		return owners[0].Kind + " " + owners[0].Name
	}
	if release := object.GetAnnotations()["meta.helm.sh/release-name"]; release != "" {
		return "Helm release " + release
	}
	if manager := object.GetLabels()["app.kubernetes.io/managed-by"]; manager != "" {
		return manager + " (its label app.kubernetes.io/managed-by)"
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" {
			return "no controller (it was written by " + entry.Manager + ")"
		}
	}
	return "no controller (it has no owner)"
}

// conflictDelay is the delay before a write is repeated after a conflict.
const conflictDelay = 200 * time.Millisecond

// StalledError means that the user has to act: a retry would not help.
type StalledError struct{ err error }

// Stalled marks err as one that only a change of the object can resolve.
func Stalled(err error) error { return &StalledError{err: err} }

// Error returns the text of the cause.
func (e *StalledError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *StalledError) Unwrap() error { return e.err }

// WaitingError means that an external condition is not met yet.
type WaitingError struct {
	err   error
	after time.Duration
}

// Waiting marks err as one whose object is requeued after a delay.
func Waiting(err error, after time.Duration) error { return &WaitingError{err: err, after: after} }

// Error returns the text of the cause.
func (e *WaitingError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *WaitingError) Unwrap() error { return e.err }

// Result converts the error of a reconciliation to a result for controller-runtime: no retry when stalled, a requeue
// when waiting or after a write conflict, and a retry with backoff for any other error.
func Result(err error) (ctrl.Result, error) {
	var stalled *StalledError
	var waiting *WaitingError
	switch {
	case err == nil:
		return ctrl.Result{}, nil
	case errors.As(err, &waiting):
		return ctrl.Result{RequeueAfter: jitter(waiting.after)}, nil
	case errors.As(err, &stalled):
		return ctrl.Result{}, reconcile.TerminalError(err)
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: jitter(conflictDelay)}, nil
	default:
		return ctrl.Result{}, err
	}
}

// jitter adds up to a fifth, so that many waiting objects are not requeued at once.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/5+1) //nolint:gosec // spreads load, hides nothing
}
