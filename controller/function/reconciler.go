package function

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// Reconciler turns Functions into the objects that run them.
type Reconciler struct {
	// client reads from the cache and writes.
	client client.Client
	// live reads past the cache, which holds only what carries our label.
	live client.Reader
	keda keda

	applier  *kube.Applier
	recorder events.EventRecorder
	clock    clock.PassiveClock
	settings *Live
	rollouts *rollouts
	// ca has the certificates that builds trust besides those of their images.
	ca         []byte
	registries registries
	slots      slots
	images     imageAnswers

	repositories Repositories
	metrics      *metrics
	progress     *progress
}

// phase is one step of a reconciliation.
type phase func(context.Context, *scope) error

// Reconcile makes the cluster match one Function, and its status the cluster.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.settings.workers.begin()()
	fn := &v1alpha2.Function{}
	err := r.client.Get(ctx, request.NamespacedName, fn)
	if apierrors.IsNotFound(err) {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if !fn.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // owned objects are garbage collected
	}

	terminating, err := r.isTerminating(ctx, fn.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if terminating {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}

	began := r.clock.Now()
	r.progress.begin(fn, began)
	defer func() { r.metrics.observe(fn, r.clock.Since(began)) }()

	before := fn.DeepCopy()
	state := r.settings.load()
	s := &scope{fn: fn, settings: state.Settings, settled: state.settled, former: state.former, now: began}
	for _, run := range []phase{
		r.decide, r.gather, r.checkOwners, r.findCommit, r.buildImage, r.rollBack, r.authorizePull, r.readConfiguration,
		r.findConflictingAutoscalers, r.retireScaling, r.applyNetworkPolicy, r.applyWorkload, r.applyScaling,
	} {
		if s.err = run(ctx, s); s.err != nil {
			break
		}
	}
	if apierrors.HasStatusCause(s.err, corev1.NamespaceTerminatingCause) { // the cache has not seen it yet
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	requeueAfter := setStatus(s)
	if requeueAfter == 0 {
		requeueAfter = state.requeueAfter()
	}
	if err := kube.PatchStatus(ctx, r.client, before, fn); err != nil {
		return kube.Result(err) // comes first, so that it is tried again even when the rest is stalled
	}
	r.followed(s)
	r.progress.end(fn, r.clock.Now())
	r.announce(fn, before.Status.Conditions)
	if log := ctrl.LoggerFrom(ctx).V(1); log.Enabled() {
		log.Info("reconciled", append(s.summary(), "took", r.clock.Since(began).String(), "requeueAfter", requeueAfter.String())...)
	}
	return result(s.err, requeueAfter)
}

// isTerminating reports whether a namespace is being deleted, and all in it: what
// is made there is refused, and a Function there is about to go.
func (r *Reconciler) isTerminating(ctx context.Context, name string) (bool, error) {
	namespace := metadataOf(kindNamespace)
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look for namespace %q: %w", name, err)
	}
	return err == nil && !namespace.DeletionTimestamp.IsZero(), nil
}

// forget drops what is remembered of a Function that is gone or about to go.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.applier.Forget(key)
	r.applier.Forget(registrySecretOf(key))
	r.applier.Forget(networkPolicyOf(key))
	r.slots.Leave(key)
	r.rollouts.leave(key)
	r.repositories.Forget(key)
	r.images.Forget(key)
	r.progress.forget(key)
}

// result requeues after requeueAfter unless the error decides otherwise.
func result(err error, requeueAfter time.Duration) (ctrl.Result, error) {
	outcome, err := kube.Result(err)
	if err == nil && outcome.RequeueAfter == 0 {
		outcome.RequeueAfter = requeueAfter
	}
	return outcome, err
}
