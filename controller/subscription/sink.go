package subscription

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// sinkProblem looks up the Service of a sink and returns why it can take no events, empty if it can. What is outside the
// cluster is believed to be there.
func (r *Reconciler) sinkProblem(ctx context.Context, route routing.Route) (string, error) {
	if route.External {
		return "", nil
	}
	service := &corev1.Service{}
	err := r.client.Get(ctx, route.Service, service)
	switch {
	case apierrors.IsNotFound(err):
		return missingSinkMessage(route.Service), nil
	case err != nil:
		return "", fmt.Errorf("get Service %q: %w", route.Service, err)
	default:
		return serviceProblem(service, route.Port), nil
	}
}

// serviceProblem returns why a port of a Service can take no events.
func serviceProblem(service *corev1.Service, port int32) string {
	key := client.ObjectKeyFromObject(service)
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return externalNameMessage(key)
	}
	for _, p := range service.Spec.Ports {
		if p.Port == port && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return ""
		}
	}
	return missingPortMessage(key, port)
}

// servedOtherwise passes creations, deletions and what changes a serviceProblem.
func servedOtherwise() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Service)
		after, too := e.ObjectNew.(*corev1.Service)
		return ok && too && (before.Spec.Type != after.Spec.Type || !reflect.DeepEqual(before.Spec.Ports, after.Spec.Ports))
	}}
}

// subscriptionsOf finds the Subscriptions whose sink a Service is, in whatever namespace.
func subscriptionsOf(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, service client.Object) []reconcile.Request {
		list := &eventingv1alpha2.SubscriptionList{}
		sink := client.MatchingFields{sinkIndex: client.ObjectKeyFromObject(service).String()}
		if err := reader.List(ctx, list, sink, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "list subscriptions")
			return nil
		}
		requests := make([]reconcile.Request, len(list.Items))
		for i := range list.Items {
			requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
		}
		return requests
	}
}
