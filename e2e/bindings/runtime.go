package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	servicebindingv1 "github.com/servicebinding/runtime/apis/v1"
	"github.com/servicebinding/runtime/projector"
	"github.com/servicebinding/runtime/resolver"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const finalizer = "servicebinding.io/finalizer"

// runtime projects the Secrets of services into workloads.
type runtime struct {
	client.Client
	resolver  resolver.Resolver
	projector projector.ServiceBindingProjector
}

func (r *runtime) setup(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).For(&servicebindingv1.ServiceBinding{}).
		// A changed workload gets the projection again.
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.bindingsOf)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	return nil
}

func (r *runtime) bindingsOf(ctx context.Context, workload client.Object) []reconcile.Request {
	list := &servicebindingv1.ServiceBindingList{}
	if err := r.List(ctx, list, client.InNamespace(workload.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list ServiceBindings")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile projects one ServiceBinding into its workloads.
func (r *runtime) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	binding := &servicebindingv1.ServiceBinding{}
	if err := r.Get(ctx, request.NamespacedName, binding); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	gone := !binding.DeletionTimestamp.IsZero()
	if !gone && controllerutil.AddFinalizer(binding, finalizer) {
		return ctrl.Result{}, r.Update(ctx, binding) // the change triggers another reconciliation
	}
	if !gone {
		resolved, err := r.resolve(ctx, binding)
		if err != nil || !resolved {
			return ctrl.Result{}, err
		}
	}
	if err := r.project(ctx, binding); err != nil {
		return ctrl.Result{}, err
	}
	if gone && controllerutil.RemoveFinalizer(binding, finalizer) {
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, binding))
	}
	return ctrl.Result{}, nil
}

// resolve finds the Secret of the service. It stores a change first, because the webhook reads it from there.
func (r *runtime) resolve(ctx context.Context, binding *servicebindingv1.ServiceBinding) (bool, error) {
	secret, err := r.resolver.LookupBindingSecret(ctx, binding)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if binding.Status.Binding != nil && binding.Status.Binding.Name == secret {
		return true, nil
	}
	binding.Status.Binding = &servicebindingv1.ServiceBindingSecretReference{Name: secret}
	return false, r.Status().Update(ctx, binding)
}

// project writes the projector's changes by Update, as the runtime's controller does.
func (r *runtime) project(ctx context.Context, binding *servicebindingv1.ServiceBinding) error {
	workloads, err := r.resolver.LookupWorkloads(ctx, binding)
	if err != nil {
		return fmt.Errorf("look up the workloads: %w", err)
	}
	binding = binding.DeepCopy()
	binding.Default()
	for _, workload := range workloads {
		current, ok := workload.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("the workload is a %T", workload)
		}
		projected := current.DeepCopy()
		write := r.projector.Project
		if !binding.DeletionTimestamp.IsZero() {
			write = r.projector.Unproject
		}
		if err := write(ctx, binding, projected); err != nil {
			return fmt.Errorf("project into %s: %w", current.GetName(), err)
		}
		if equality.Semantic.DeepEqual(current, projected) {
			continue
		}
		if err := r.Update(ctx, projected); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("update %s: %w", current.GetName(), err)
		}
		fmt.Println("bindings: wrote", current.GetName())
	}
	return nil
}

// installCRDs installs the CRDs of the runtime's module, without the conversion between their versions. They are not
// removed.
func installCRDs(ctx context.Context, config *rest.Config) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/servicebinding/runtime").Output()
	if err != nil {
		return fmt.Errorf("find the runtime's module: %w", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "bases")
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{folder}, ErrorIfPathMissing: true}); err != nil {
		return fmt.Errorf("install the CRDs of %s: %w", folder, err)
	}
	return nil
}
