package conversion

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// Reconciler copies GitRepositories into the Functions that name them.
type Reconciler struct {
	client client.Client
}

// SetupGitRepositories adds the controller to a manager.
func SetupGitRepositories(manager ctrl.Manager) error {
	r := &Reconciler{client: manager.GetClient()}
	err := kube.NewController(manager, controller.Options{}).
		Named("gitrepository").
		For(&v1alpha2.Function{}, builder.WithPredicates(predicate.NewPredicateFuncs(named))).
		Watches(&v1alpha1.GitRepository{}, handler.EnqueueRequestsFromMapFunc(r.functionsOf)).
		Complete(reconcile.AsReconciler(manager.GetClient(), r))
	if err != nil {
		return fmt.Errorf("set up the GitRepository controller: %w", err)
	}
	return nil
}

// named reports whether a Function names a GitRepository.
func named(fn client.Object) bool { return fn.GetAnnotations()[v1alpha1.AnnotationGitRepository] != "" }

// functionsOf returns the Functions that name a GitRepository.
func (r *Reconciler) functionsOf(ctx context.Context, repository client.Object) []ctrl.Request {
	functions := &v1alpha2.FunctionList{}
	if err := r.client.List(ctx, functions, client.InNamespace(repository.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the Functions of a GitRepository")
		return nil
	}
	var requests []ctrl.Request
	for i := range functions.Items {
		if fn := &functions.Items[i]; fn.Annotations[v1alpha1.AnnotationGitRepository] == repository.GetName() {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(fn)})
		}
	}
	return requests
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, fn *v1alpha2.Function) (ctrl.Result, error) {
	git := fn.Spec.Source.GitRepository
	if git == nil || !named(fn) || !fn.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	repository := &v1alpha1.GitRepository{}
	key := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Annotations[v1alpha1.AnnotationGitRepository]}
	if err := r.client.Get(ctx, key, repository); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // its watch enqueues the Function
	}
	before := fn.DeepCopy()
	write(git, &repository.Spec)
	if equality.Semantic.DeepEqual(before.Spec, fn.Spec) {
		return ctrl.Result{}, nil
	}
	err := r.client.Patch(ctx, fn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil // a newer version is already enqueued
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("write GitRepository %s into Function %s: %w", key.Name, client.ObjectKeyFromObject(before), err)
	}
	return ctrl.Result{}, nil
}

func write(git *v1alpha2.GitRepositorySource, repository *v1alpha1.GitRepositorySpec) {
	git.URL, git.Auth = repository.URL, nil
	if auth := repository.Auth; auth != nil {
		git.Auth = &v1alpha2.RepositoryAuth{Type: auth.Type, SecretName: auth.SecretName}
	}
}
