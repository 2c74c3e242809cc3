package apirules

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/rouse-run/rouse/internal/kube"
)

const (
	kindGrant   = "ReferenceGrant"
	kindService = "Service"
)

// grantVersion is the one that every release of Gateway API has served.
var grantVersion = schema.GroupVersion{Group: gatewayapi.GroupName, Version: "v1beta1"}

// grantMetadata is a ReferenceGrant of which the metadata is all that is read.
func grantMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(grantVersion.WithKind(kindGrant))
	return object
}

// grantName is that of the grant for a namespace. A grant names sixteen namespaces at most, so each has its own.
func (o *Options) grantName(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: o.Entrance.Namespace, Name: o.Entrance.Name + "-" + namespace}
}

// grantedTo is the namespace that a grant is for, if it has the name of one of ours.
func (o *Options) grantedTo(grant client.Object) (string, bool) {
	if grant.GetNamespace() != o.Entrance.Namespace {
		return "", false
	}
	return strings.CutPrefix(grant.GetName(), o.Entrance.Name+"-")
}

// grant lets the HTTPRoutes of a namespace lead to the gateways' Service, or no longer. The Service owns the grants, so that they go
// with it.
func (r *Reconciler) grant(ctx context.Context, namespace string) error {
	service := &corev1.Service{}
	if err := r.client.Get(ctx, r.options.Entrance, service); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it is watched, and HTTPRoutes say what is missing
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
			return nil // it is left as it is; HTTPRoutes say whether it suffices
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
