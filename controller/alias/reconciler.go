package alias

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
)

const (
	// maxEndpoints is what the API takes in one slice.
	maxEndpoints = 1000
	// foreignDelay is the delay before a slice of somebody else is looked at again.
	foreignDelay = time.Minute

	kindService = "Service"
)

// Reconciler writes the slices of the alias.
type Reconciler struct {
	client  client.Client
	applier *kube.Applier
	alias   watch.PublisherAlias
}

// Setup adds the controller to a manager, if there is an alias.
func Setup(mgr ctrl.Manager, alias watch.PublisherAlias) error {
	if alias.Service.Name == "" {
		return nil
	}
	r := &Reconciler{client: mgr.GetClient(), applier: kube.NewApplier(mgr.GetClient()), alias: alias}
	concerned := predicate.NewPredicateFuncs(r.concerns)
	toAlias := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: alias.Service}}
	})
	err := kube.NewController(mgr, controller.Options{}).
		Named("publisher-alias").
		For(&corev1.Service{}, builder.WithPredicates(concerned)).
		Watches(&discoveryv1.EndpointSlice{}, toAlias, builder.WithPredicates(concerned)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of the publisher's alias: %w", err)
	}
	return nil
}

// concerns reports whether the alias depends on an object: itself, and the slices of both Services.
func (r *Reconciler) concerns(object client.Object) bool {
	name := object.GetName()
	if _, ok := object.(*discoveryv1.EndpointSlice); ok {
		name = object.GetLabels()[discoveryv1.LabelServiceName]
		if object.GetNamespace() == r.alias.Target.Namespace && name == r.alias.Target.Name {
			return true
		}
	}
	return object.GetNamespace() == r.alias.Service.Namespace && name == r.alias.Service.Name
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	service := &corev1.Service{}
	err := r.client.Get(ctx, r.alias.Service, service)
	if apierrors.IsNotFound(err) || err == nil && !service.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get Service %q: %w", r.alias.Service, err)
	}
	of, err := r.slicesOf(ctx, r.alias.Target)
	if err != nil {
		return reconcile.Result{}, err
	}
	present, err := r.slicesOf(ctx, r.alias.Service)
	if err != nil {
		return reconcile.Result{}, err
	}
	var errs []error
	for _, family := range families(of, present) {
		errs = append(errs, r.apply(ctx, service, family, endpoints(of, family)))
	}
	return kube.Result(errors.Join(errs...))
}

func (r *Reconciler) slicesOf(ctx context.Context, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := r.client.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %q: %w", service, err)
	}
	return list.Items, nil
}

// families are those of the bridges, and those that the alias had before, which are emptied.
func families(of, present []discoveryv1.EndpointSlice) []discoveryv1.AddressType {
	var found []discoveryv1.AddressType
	for _, slice := range slices.Concat(of, present) {
		found = append(found, slice.AddressType)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// endpoints returns the endpoints of a family, in the same order for the same pods.
func endpoints(of []discoveryv1.EndpointSlice, family discoveryv1.AddressType) []discoveryv1.Endpoint {
	var found []discoveryv1.Endpoint
	for i := range of {
		if of[i].AddressType == family && of[i].DeletionTimestamp.IsZero() {
			found = append(found, of[i].Endpoints...)
		}
	}
	slices.SortFunc(found, func(a, b discoveryv1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
	found = slices.CompactFunc(found, func(a, b discoveryv1.Endpoint) bool { return slices.Equal(a.Addresses, b.Addresses) })
	return found[:min(len(found), maxEndpoints)]
}

// apply writes the slice of a family.
func (r *Reconciler) apply(ctx context.Context, service *corev1.Service, family discoveryv1.AddressType, of []discoveryv1.Endpoint) error {
	desired, err := sliceOf(service, family, of)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(desired)
	live := &discoveryv1.EndpointSlice{}
	switch err := r.client.Get(ctx, key, live); {
	case apierrors.IsNotFound(err):
		_, err = r.applier.Apply(ctx, desired, nil)
		return err
	case err != nil:
		return fmt.Errorf("get EndpointSlice %q: %w", key, err)
	}
	if err := kube.CheckOwner(live, "EndpointSlice", service, schema.GroupKind{Kind: kindService}); err != nil {
		return kube.Waiting(err, foreignDelay)
	}
	_, err = r.applier.Apply(ctx, desired, live)
	return err
}

// sliceOf is the alias's slice of a family.
func sliceOf(service *corev1.Service, family discoveryv1.AddressType, of []discoveryv1.Endpoint) (*unstructured.Unstructured, error) {
	config := discoveryv1ac.EndpointSlice(service.Name+"-"+strings.ToLower(string(family)), service.Namespace).
		WithLabels(map[string]string{
			discoveryv1.LabelServiceName: service.Name,
			discoveryv1.LabelManagedBy:   activation.AliasManagedBy,
		}).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(corev1.SchemeGroupVersion.String()).WithKind(kindService).
			WithName(service.Name).WithUID(service.UID).WithController(true)).
		WithAddressType(family)
	for _, port := range service.Spec.Ports {
		config.WithPorts(discoveryv1ac.EndpointPort().WithName(port.Name).WithPort(podPort(port)).
			WithProtocol(cmp.Or(port.Protocol, corev1.ProtocolTCP)))
	}
	for _, each := range of {
		endpoint := discoveryv1ac.Endpoint().WithAddresses(each.Addresses...).WithConditions(&discoveryv1ac.EndpointConditionsApplyConfiguration{
			Ready: each.Conditions.Ready, Serving: each.Conditions.Serving, Terminating: each.Conditions.Terminating,
		})
		endpoint.NodeName = each.NodeName
		config.WithEndpoints(endpoint)
	}
	object, err := kube.ToUnstructured(config)
	if err == nil && len(of) == 0 {
		object.Object["endpoints"] = []any{} // own the empty list
	}
	return object, err
}

// podPort is where the bridges listen for a port of the alias: a Service without a selector names it by its number.
func podPort(port corev1.ServicePort) int32 {
	return cmp.Or(port.TargetPort.IntVal, port.Port)
}
