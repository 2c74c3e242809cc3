package subscription

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// CacheObjects limits what the manager's cache holds of Subscriptions; pass it to the manager as part of cache.Options.ByObject.
func CacheObjects() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&eventingv1alpha2.Subscription{}: {Transform: withSharedTexts}}
}

func withSharedTexts(object any) (any, error) {
	if sub, ok := object.(*eventingv1alpha2.Subscription); ok {
		kube.ShareTexts(sub)
		for i := range sub.Status.Conditions {
			condition := &sub.Status.Conditions[i]
			kube.ShareText(&condition.Type)
			kube.ShareText(&condition.Status)
			kube.ShareText(&condition.Reason)
		}
	}
	return kube.WithoutManagedFields(object)
}
