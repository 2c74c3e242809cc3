package watch

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// APIRuleObjects limits what a cache holds of Services. Watch relies on it; make it part of the cache.Options.ByObject. It is empty when
// APIRules are not served. Kinds of CustomResourceDefinitions are not in it: a cache cannot be made while one of those is missing.
func APIRuleObjects(settings APIRuleSettings) map[client.Object]cache.ByObject {
	if !settings.Enabled {
		return nil
	}
	return map[client.Object]cache.ByObject{&corev1.Service{}: {Transform: withoutDetails}}
}

// TransformAPIRules limits what a cache holds of APIRules and Gateways, as its cache.Options.DefaultTransform. Other objects stay as they are.
func TransformAPIRules(object any) (any, error) {
	switch typed := object.(type) {
	case *v2.APIRule:
		typed.Annotations, typed.ManagedFields = nil, nil // their owners may fill 256 KiB
	case *gatewayapi.Gateway:
		onlyListeners(typed)
	}
	return object, nil
}

// withoutDetails keeps of a Service where it leads, and who may lead to it.
func withoutDetails(object any) (any, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	kept := v1alpha2.DebugUntil(service.Annotations)
	if from, named := service.Annotations[apirule.AnnotationFrom]; named {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[apirule.AnnotationFrom] = from
	}
	service.Annotations, service.ManagedFields, service.Status = kept, nil, corev1.ServiceStatus{}
	return service, nil
}

// onlyListeners keeps of a Gateway which hosts it has.
func onlyListeners(gateway *gatewayapi.Gateway) {
	gateway.Annotations, gateway.ManagedFields = nil, nil
	listeners := make([]gatewayapi.Listener, len(gateway.Spec.Listeners))
	for i := range gateway.Spec.Listeners {
		from := &gateway.Spec.Listeners[i]
		listeners[i] = gatewayapi.Listener{Name: from.Name, Hostname: from.Hostname, Port: from.Port, Protocol: from.Protocol}
	}
	gateway.Spec, gateway.Status = gatewayapi.GatewaySpec{Listeners: listeners}, gatewayapi.GatewayStatus{}
}
