package resources

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/internal/applyconfig"
)

func service(owner *operatorv1alpha1.Serverless) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(ServiceName, owner.Namespace).
		WithLabels(objectLabels(owner)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(selectorLabels()).
			WithPorts(corev1ac.ServicePort().
				WithName("http-metrics").
				WithProtocol(corev1.ProtocolTCP).
				WithPort(metricsServicePort).
				WithTargetPort(intstr.FromString(metricsPort))))
}

// networkPolicy bounds whom the Function controller's pods talk to; nil where the installation has no NetworkPolicies.
func networkPolicy(owner *operatorv1alpha1.Serverless, rules *NetworkPolicy) (*networkingv1ac.NetworkPolicyApplyConfiguration, error) {
	spec, err := applyconfig.Of[networkingv1ac.NetworkPolicySpecApplyConfiguration](rules)
	if err != nil {
		return nil, err
	}
	spec.WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels())).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	return networkingv1ac.NetworkPolicy(networkPolicyName, owner.Namespace).WithLabels(objectLabels(owner)).WithSpec(spec), nil
}
