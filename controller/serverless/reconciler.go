package serverless

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// blockedDelay is how soon something is looked at again that others have to resolve.
	blockedDelay = 3 * time.Second
	// removalDelay is how soon what is being deleted is looked at again. Most of it is watched.
	removalDelay = time.Second
	// resyncPeriod is how often what is not watched is looked at: how many nodes there are.
	resyncPeriod = 10 * time.Minute
)

// Reconciler looks after Serverlesses.
type Reconciler struct {
	client       client.Client // only writes
	live         client.Reader
	collectors   client.Reader // Services of collectors of traces, from a cache
	applier      *kube.Applier
	recorder     events.EventRecorder
	clock        clock.PassiveClock
	installation *resources.Installation
}

// Reconcile looks after one Serverless, or after what one has left that is gone.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	all := &operatorv1alpha1.ServerlessList{}
	if err := r.live.List(ctx, all); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Serverlesses: %w", err)
	}
	for i := range all.Items {
		if one := &all.Items[i]; client.ObjectKeyFromObject(one) == request.NamespacedName {
			return r.reconcile(ctx, one, choose(all.Items, r.installation.Allows))
		}
	}
	left, err := r.remove(ctx, request.Namespace, leftBehind(all.Items))
	if err == nil && left {
		return ctrl.Result{RequeueAfter: removalDelay}, nil
	}
	return kube.Result(err)
}

func (r *Reconciler) reconcile(ctx context.Context, one, served *operatorv1alpha1.Serverless) (ctrl.Result, error) {
	old := one.DeepCopy()
	s := &scope{
		serverless: one, served: served,
		namespaces: r.installation.Namespaces, allowed: r.installation.Allows(one.Namespace),
		networkPolicies: r.installation.NetworkPolicy != nil,
	}
	if !s.isDeleted() && s.allowed && s.isServed() && !controllerutil.ContainsFinalizer(one, operatorv1alpha1.Finalizer) {
		return kube.Result(r.setFinalizer(ctx, one, controllerutil.AddFinalizer)) // its update comes back
	}
	after, err := r.act(ctx, s)
	if err != nil && s.failed == nil {
		return kube.Result(err) // which says nothing about the Serverless
	}
	setStatus(s, r.clock.Now())
	if failed := kube.PatchStatus(ctx, r.client, old, one); failed != nil {
		return kube.Result(failed)
	}
	r.announce(old, one)
	if s.removed {
		err = r.setFinalizer(ctx, old, controllerutil.RemoveFinalizer)
	}
	if err != nil {
		return kube.Result(err)
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// act does what a Serverless asks for, and says when to look again.
func (r *Reconciler) act(ctx context.Context, s *scope) (time.Duration, error) {
	switch {
	case s.isDeleted():
		return r.uninstall(ctx, s)
	case !s.allowed:
		return 0, nil // a change of it restarts the operator
	case !s.isServed():
		return blockedDelay, nil
	default:
		return r.install(ctx, s)
	}
}

func (r *Reconciler) setFinalizer(
	ctx context.Context, one *operatorv1alpha1.Serverless, change func(client.Object, string) bool,
) error {
	known := &operatorv1alpha1.Serverless{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(one), known); err != nil {
		return client.IgnoreNotFound(err)
	}
	old := known.DeepCopy()
	if known.UID != one.UID || !change(known, operatorv1alpha1.Finalizer) {
		return nil
	}
	err := r.client.Patch(ctx, known, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the finalizer of Serverless %q: %w", client.ObjectKeyFromObject(one), err)
	}
	return nil
}
