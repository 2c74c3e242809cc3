package apirules

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	kindAPIRule = "APIRule"
	kindDoor    = "Door"
	kindRoute   = "HTTPRoute"
	// routeErrors is Kyma's prefix for problems with an object that an APIRule needs.
	routeErrors = "HTTPRouteErrors: "
	// entrancePort is the port of the gateways' Service for hosts of APIRules.
	entrancePort = 80
)

// routeState is the state of an APIRule's HTTPRoute. It is zero for a route that is not needed, or works.
type routeState struct {
	// problem is why the route receives no request.
	problem string
	// pending is what the route waits for.
	pending string
}

// routed reports whether a Gateway of Gateway API leads to an APIRule. Rouse's own gateways need no HTTPRoute.
func (o *Options) routed(e *apirule.Exposure) bool {
	_, ours := o.Domains[e.Gateway]
	return o.GatewayAPI && !ours && e.Host != ""
}

// routeOwner owns the HTTPRoute of a host.
type routeOwner struct {
	client.Object

	group schema.GroupVersion
	kind  string
	name  string // of the HTTPRoute
}

func ownedBy(rule *v2.APIRule) *routeOwner {
	return &routeOwner{rule, v2.GroupVersion, kindAPIRule, rule.Name}
}

// key names the HTTPRoute.
func (o *routeOwner) key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.name}
}

// route applies the HTTPRoute of a host, or deletes it.
func (r *Reconciler) route(ctx context.Context, owner *routeOwner, e *apirule.Exposure) (routeState, error) {
	if !r.options.GatewayAPI {
		return routeState{}, nil
	}
	live, problem, err := r.liveRoute(ctx, owner)
	switch {
	case err != nil:
		return routeState{}, err
	case !r.options.routed(e):
		if live == nil {
			return routeState{}, nil
		}
		return routeState{}, r.deleteRoute(ctx, live)
	case problem != "":
		return routeState{problem: problem}, nil // it is watched
	}
	if err := r.grant(ctx, owner.GetNamespace()); err != nil {
		return routeState{}, err
	}
	return r.applyRoute(ctx, owner, e, live)
}

// liveRoute returns the HTTPRoute of a host, nil without one. A route of another owner is a problem.
func (r *Reconciler) liveRoute(ctx context.Context, owner *routeOwner) (live *gatewayapi.HTTPRoute, problem string, err error) {
	live = &gatewayapi.HTTPRoute{}
	key := owner.key()
	if err := r.client.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, "", nil
		}
		return nil, "", fmt.Errorf("get HTTPRoute %q: %w", key, err)
	}
	if foreign := kube.CheckOwner(live, kindRoute, owner.Object, schema.GroupKind{Group: owner.group.Group, Kind: owner.kind}); foreign != nil {
		problem = routeErrors + foreign.Error()
		return nil, problem, nil //nolint:nilerr // the status reports it
	}
	return live, "", nil
}

func (r *Reconciler) applyRoute(ctx context.Context, owner *routeOwner, e *apirule.Exposure, live *gatewayapi.HTTPRoute) (routeState, error) {
	var present metav1.Object
	if live != nil {
		present = live
	}
	written, err := r.applier.Apply(ctx, routeOf(owner, e, r.options.Entrance), present)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return routeState{}, nil // the namespace is being deleted
	}
	if err != nil {
		return routeState{}, err
	}
	if written != nil {
		live = &gatewayapi.HTTPRoute{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, live); err != nil {
			return routeState{}, fmt.Errorf("read HTTPRoute %q: %w", owner.key(), err)
		}
	}
	return stateOf(live, e.Gateway), nil
}

func (r *Reconciler) deleteRoute(ctx context.Context, live *gatewayapi.HTTPRoute) error {
	r.applier.Forget(client.ObjectKeyFromObject(live))
	stub := &gatewayapi.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}}
	err := r.client.Delete(ctx, stub, client.Preconditions{UID: new(live.UID)})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it was deleted, or replaced by another one
	}
	if err != nil {
		return fmt.Errorf("delete HTTPRoute %q: %w", client.ObjectKeyFromObject(live), err)
	}
	return nil
}

// routeOf leads all requests of the host to the gateways, which apply the rules.
func routeOf(of *routeOwner, e *apirule.Exposure, entrance types.NamespacedName) *unstructured.Unstructured {
	owner := metav1.OwnerReference{APIVersion: of.group.String(), Kind: of.kind, Name: of.GetName(), UID: of.GetUID()}
	backend := reference("", kindService, entrance)
	backend["port"] = int64(entrancePort)
	return objectOf(gatewayapi.GroupVersion.String(), kindRoute, of.key(), owner, map[string]any{
		"parentRefs": []any{reference(gatewayapi.GroupName, "Gateway", e.Gateway)},
		"hostnames":  []any{e.Host},
		"rules": []any{map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": string(gatewayapi.PathMatchPathPrefix), "value": "/"}}},
			"backendRefs": []any{backend},
		}},
	})
}

// objectOf returns an object that is garbage collected with its owner.
func objectOf(version, kind string, key types.NamespacedName, owner metav1.OwnerReference, spec map[string]any) *unstructured.Unstructured {
	owner.Controller = new(true)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	object.SetOwnerReferences([]metav1.OwnerReference{owner})
	return object
}

func reference(group, kind string, to types.NamespacedName) map[string]any {
	return map[string]any{"group": group, "kind": kind, "namespace": to.Namespace, "name": to.Name}
}

// stateOf reads a Gateway's conditions of an HTTPRoute.
func stateOf(route *gatewayapi.HTTPRoute, gateway types.NamespacedName) routeState {
	pending := routeState{pending: fmt.Sprintf("Gateway %s has not accepted HTTPRoute %s yet", gateway, route.Name)}
	for i := range route.Status.Parents {
		parent := &route.Status.Parents[i]
		if string(parent.ParentRef.Name) != gateway.Name || namespaceOf(&parent.ParentRef, route.Namespace) != gateway.Namespace {
			continue
		}
		for _, kind := range []gatewayapi.RouteConditionType{gatewayapi.RouteConditionAccepted, gatewayapi.RouteConditionResolvedRefs} {
			condition := meta.FindStatusCondition(parent.Conditions, string(kind))
			switch {
			case condition == nil || condition.ObservedGeneration < route.Generation || condition.Status == metav1.ConditionUnknown:
				return pending
			case condition.Status == metav1.ConditionFalse:
				return routeState{problem: fmt.Sprintf("%sGateway %s: %s is false (%s): %s", routeErrors, gateway, kind, condition.Reason, condition.Message)}
			}
		}
		return routeState{}
	}
	return pending
}

func namespaceOf(parent *gatewayapi.ParentReference, route string) string {
	if parent.Namespace == nil {
		return route
	}
	return string(*parent.Namespace)
}

const (
	kindGrant   = "ReferenceGrant"
	kindService = "Service"
)

// grantVersion is the version that every release of Gateway API has served.
var grantVersion = schema.GroupVersion{Group: gatewayapi.GroupName, Version: "v1beta1"}

// grantMetadata returns an empty ReferenceGrant whose metadata alone is read.
func grantMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(grantVersion.WithKind(kindGrant))
	return object
}

// grantName names the grant for a namespace. A grant covers at most sixteen namespaces, so each has its own.
func (o *Options) grantName(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: o.Entrance.Namespace, Name: o.Entrance.Name + "-" + namespace}
}

// grantedTo returns the namespace of a grant, if it has the name of one of ours.
func (o *Options) grantedTo(grant client.Object) (string, bool) {
	if grant.GetNamespace() != o.Entrance.Namespace {
		return "", false
	}
	return strings.CutPrefix(grant.GetName(), o.Entrance.Name+"-")
}

// grant lets the HTTPRoutes of a namespace lead to the gateways' Service, or no longer. The Service owns the grants, so
// that they are garbage collected with it.
func (r *Reconciler) grant(ctx context.Context, namespace string) error {
	service := &corev1.Service{}
	if err := r.client.Get(ctx, r.options.Entrance, service); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it is watched, and HTTPRoutes report what is missing
		}
		return fmt.Errorf("get Service %q: %w", r.options.Entrance, err)
	}
	live, key := grantMetadata(), r.options.grantName(namespace)
	err := r.grants.Get(ctx, key, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get ReferenceGrant %q: %w", key, err)
	}
	var present metav1.Object
	if err == nil {
		present = live
		if ours := kube.CheckOwner(live, kindGrant, service, schema.GroupKind{Kind: kindService}) == nil; !ours {
			return nil // it stays unchanged; HTTPRoutes report whether it suffices
		}
	}
	if r.table.isRouted(namespace) {
		_, err := r.applier.Apply(ctx, grantOf(key, namespace, service), present)
		return err
	}
	if present == nil {
		return nil
	}
	r.applier.Forget(key)
	stub := grantMetadata()
	stub.Namespace, stub.Name = key.Namespace, key.Name
	err = r.client.Delete(ctx, stub, client.Preconditions{UID: new(live.UID)})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete ReferenceGrant %q: %w", key, err)
	}
	return nil
}

func grantOf(key types.NamespacedName, namespace string, service *corev1.Service) *unstructured.Unstructured {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: kindService, Name: service.Name, UID: service.UID}
	return objectOf(grantVersion.String(), kindGrant, key, owner, map[string]any{
		"from": []any{map[string]any{"group": gatewayapi.GroupName, "kind": kindRoute, "namespace": namespace}},
		"to":   []any{map[string]any{"group": "", "kind": kindService, "name": service.Name}},
	})
}
