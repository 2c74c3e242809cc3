package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Service makes the Function reachable as <name>.<namespace>.svc. It tells those who know Services and no Functions until when this one
// is debugged.
func Service(fn *v1alpha2.Function) *corev1ac.ServiceApplyConfiguration {
	service := corev1ac.Service(fn.Name, fn.Namespace)
	if until := v1alpha2.DebugUntil(fn.Annotations); until != nil {
		service.WithAnnotations(until)
	}
	return service.
		WithLabels(objectLabels(fn)).
		WithOwnerReferences(ownerReference(fn)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(SelectorLabels(fn)).
			WithPorts(corev1ac.ServicePort().
				WithName("http").
				WithProtocol(corev1.ProtocolTCP).
				WithPort(80).
				WithTargetPort(intstr.FromInt32(Port))))
}
