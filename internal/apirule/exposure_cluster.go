package apirule

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// AnnotationFrom is set on a Service by those to whom it belongs: the namespaces whose APIRules may lead to it, separated by
// commas, or * for all. Those of its own namespace always may.
const AnnotationFrom = "rouse.run/apirules-from"

// Objects is what there is beside the APIRules.
type Objects struct {
	// Gateways are those that spec.gateway may name.
	Gateways map[types.NamespacedName]Gateway
	Services map[types.NamespacedName]ServiceInfo
	// Authorizers are the names that extAuth may use.
	Authorizers map[string]bool
}

// ServiceInfo is what is known of a Service.
type ServiceInfo struct {
	// Selects says that the Service has a selector. One without leads wherever its author wants.
	Selects bool
	// Function says that it is the Service of the Function of its name.
	Function bool
	// Address is its cluster IP, empty without one.
	Address string
	Ports   []int32
	// From are the namespaces whose APIRules may lead to it beside those of its own.
	From []string
}

// ServiceInfoOf takes from a Service what decides whether and how it is exposed.
func ServiceInfoOf(service *corev1.Service) ServiceInfo {
	s := ServiceInfo{Selects: len(service.Spec.Selector) > 0 && service.Spec.Type != corev1.ServiceTypeExternalName}
	if owner := metav1.GetControllerOf(service); owner != nil {
		s.Function = owner.Kind == "Function" && owner.Name == service.Name &&
			strings.HasPrefix(owner.APIVersion, v1alpha2.GroupVersion.Group+"/")
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone {
		s.Address = service.Spec.ClusterIP
	}
	for i := range service.Spec.Ports {
		if port := service.Spec.Ports[i]; port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
			s.Ports = append(s.Ports, port.Port)
		}
	}
	for each := range strings.SplitSeq(service.Annotations[AnnotationFrom], ",") {
		if each = strings.TrimSpace(each); each != "" {
			s.From = append(s.From, each)
		}
	}
	return s
}

// allows reports whether APIRules of a namespace may lead to a Service of another.
func (s *ServiceInfo) allows(namespace string) bool {
	return slices.Contains(s.From, namespace) || slices.Contains(s.From, "*")
}
