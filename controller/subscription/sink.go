package subscription

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// sinkExists looks for the Service of a sink. Only its metadata is cached. What
// is outside the cluster is believed to be there.
func (r *Reconciler) sinkExists(ctx context.Context, route routing.Route) (bool, error) {
	if route.External {
		return true, nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	err := r.client.Get(ctx, route.Service, object)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get Service %q: %w", route.Service, err)
	}
	return err == nil, nil
}

// subscriptionsOf finds the Subscriptions whose sink a Service is.
func subscriptionsOf(reader client.Reader, policy routing.Policy) handler.MapFunc {
	return func(ctx context.Context, service client.Object) []reconcile.Request {
		list := &eventingv1alpha2.SubscriptionList{}
		where := []client.ListOption{client.InNamespace(service.GetNamespace())}
		if policy.Opens() {
			where = nil // those of other namespaces too
		}
		if err := reader.List(ctx, list, where...); err != nil {
			log.FromContext(ctx).Error(err, "list subscriptions")
			return nil
		}
		var requests []reconcile.Request
		for i := range list.Items {
			route, err := routing.FromSubscription(&list.Items[i], policy)
			if err == nil && leadsTo(route, client.ObjectKeyFromObject(service)) {
				requests = append(requests, reconcile.Request{NamespacedName: route.Subscription})
			}
		}
		return requests
	}
}

// leadsTo tells whether events or dead letters go to the Service.
func leadsTo(route routing.Route, service client.ObjectKey) bool {
	return route.Service == service || route.DeadLetters != nil && route.DeadLetters.Service == service
}
