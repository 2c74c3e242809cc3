package serverless

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/serverless/resources"
)

// uninstall removes the parts of a Serverless that is deleted. While there are Functions their controller stays, and is repaired.
func (r *Reconciler) uninstall(ctx context.Context, s *scope) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(s.serverless, operatorv1alpha1.Finalizer) {
		return 0, nil // others hold it
	}
	if s.isServed() {
		if s.functions, s.failed = r.countFunctions(ctx); s.failed != nil {
			return 0, s.failed
		}
	}
	if s.functions > 0 {
		if s.settings = lastGood(&s.serverless.Status); s.settings != nil {
			if err := r.apply(ctx, s); err != nil { // as in a namespace that is deleted, too
				ctrl.LoggerFrom(ctx).Error(err, "cannot repair the Function controller of a Serverless that is deleted")
			}
		}
		return blockedDelay, nil
	}
	if meta.FindStatusCondition(s.serverless.Status.Conditions, operatorv1alpha1.ConditionDeleted) == nil {
		return removalDelay, nil // first the status says it
	}
	s.removing = true
	owner := string(s.serverless.UID)
	left, err := r.remove(ctx, s.serverless.Namespace, func(live metav1.Object) bool {
		return live.GetLabels()[resources.LabelOwner] == owner
	})
	if err == nil && !left && s.isServed() {
		left, err = r.removeLock(ctx, s.serverless.Namespace)
	}
	s.failed, s.removed = err, err == nil && !left
	return removalDelay, err
}

// removeLock removes a lock that its holder has made again, without a label, after somebody had deleted it.
func (r *Reconciler) removeLock(ctx context.Context, namespace string) (bool, error) {
	lock := resources.Part{Kind: resources.KindLease, Key: types.NamespacedName{Namespace: namespace, Name: resources.LeaseName}}
	return r.removePart(ctx, lock, func(live metav1.Object) bool { return live.GetLabels()[resources.LabelOwner] == "" })
}

// countFunctions counts those of all namespaces. Where nobody knows what a Function is there is none.
func (r *Reconciler) countFunctions(ctx context.Context) (int64, error) {
	functions := &metav1.PartialObjectMetadataList{}
	functions.SetGroupVersionKind(serverlessv1alpha2.GroupVersion.WithKind("FunctionList"))
	err := r.live.List(ctx, functions, client.Limit(1))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("count the Functions: %w", err)
	}
	count := int64(len(functions.Items))
	if functions.RemainingItemCount != nil {
		count += *functions.RemainingItemCount
	}
	return count, nil
}

// remove deletes the parts of a namespace that match, one kind after the other, and reports whether any is left. The lock goes when the
// pods that may hold it are gone.
func (r *Reconciler) remove(ctx context.Context, namespace string, matches func(metav1.Object) bool) (bool, error) {
	for _, part := range resources.Parts(namespace, r.installation) {
		left, err := r.removePart(ctx, part, matches)
		if left || err != nil {
			return left, err
		}
	}
	return false, nil
}

func (r *Reconciler) removePart(ctx context.Context, part resources.Part, matches func(metav1.Object) bool) (bool, error) {
	live, err := r.read(ctx, part)
	if err != nil || live == nil || !matches(live) {
		return false, err
	}
	r.applier.Forget(part.Key)
	if live.DeletionTimestamp != nil {
		return true, nil
	}
	policy := metav1.DeletePropagationBackground
	if part.Kind == resources.KindDeployment {
		policy = metav1.DeletePropagationForeground // until its pods are gone
	}
	uid := live.UID
	err = r.client.Delete(ctx, live, client.PropagationPolicy(policy), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("delete %s %q: %w", part.Kind.Kind, part.Key, err)
	}
	return true, nil
}

// leftBehind matches parts of a Serverless that is gone, because somebody has taken its finalizer away.
func leftBehind(all []operatorv1alpha1.Serverless) func(metav1.Object) bool {
	known := map[types.UID]bool{}
	for i := range all {
		known[all[i].UID] = true
	}
	return func(live metav1.Object) bool {
		owner := live.GetLabels()[resources.LabelOwner]
		return owner != "" && !known[types.UID(owner)]
	}
}
