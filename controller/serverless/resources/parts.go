package resources

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/internal/applyconfig"
)

// Kinds of the parts.
var (
	KindDeployment         = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	KindAccount            = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	KindConfigMap          = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	KindService            = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	KindRoleBinding        = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}
	KindClusterRoleBinding = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}
	KindNetworkPolicy      = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}
	KindLease              = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
)

// Part is an object that belongs to a Serverless.
type Part struct {
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
}

// Parts returns all objects that a Serverless of a namespace may have, in the order in which they are removed: the
// running pods before their rights, and then the lease that they held.
func Parts(namespace string, installation *Installation) []Part {
	in := func(kind schema.GroupVersionKind, name string) Part {
		return Part{Kind: kind, Key: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	return []Part{
		in(KindDeployment, DeploymentName),
		in(KindLease, LeaseName),
		in(KindService, ServiceName),
		in(KindNetworkPolicy, networkPolicyName),
		in(KindConfigMap, ConfigName),
		in(KindConfigMap, LogConfigName),
		in(KindConfigMap, CAName),
		in(KindRoleBinding, leaderBindingName),
		{Kind: KindClusterRoleBinding, Key: types.NamespacedName{Name: installation.Binding}},
		in(KindAccount, AccountName),
	}
}

// Build returns the parts in the order in which they are applied.
func Build(owner *operatorv1alpha1.Serverless, installation *Installation, settings *Settings) ([]*unstructured.Unstructured, error) {
	process, err := deployment(owner, installation, settings)
	if err != nil {
		return nil, err
	}
	files, err := configs(owner, installation, settings)
	if err != nil {
		return nil, err
	}
	built := []any{
		account(owner), clusterBinding(owner, installation), leaderBinding(owner, installation), lease(owner), files[0], files[1], service(owner),
	}
	if bundle := installation.Controller.CABundle; bundle != "" {
		built = append(built, configMap(owner, CAName, caKey, bundle))
	}
	if installation.NetworkPolicy != nil {
		policy, err := networkPolicy(owner, installation.NetworkPolicy)
		if err != nil {
			return nil, err
		}
		built = append(built, policy)
	}
	built = append(built, process)
	parts := make([]*unstructured.Unstructured, 0, len(built))
	for _, configuration := range built {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
		if err != nil {
			return nil, fmt.Errorf("convert %T: %w", configuration, err)
		}
		parts = append(parts, &unstructured.Unstructured{Object: content})
	}
	return parts, nil
}

// Names of the parts, which are Kyma's.
const (
	DeploymentName     = "serverless-ctrl-mngr"
	AccountName        = "serverless-controller-manager"
	ServiceName        = "serverless-controller-manager"
	ConfigName         = "serverless-config"
	ConfigKey          = "function-config.yaml"
	LogConfigName      = "serverless-log-config"
	LogConfigKey       = "log-config.yaml"
	LeaseName          = "serverless-controller-leader-election-helper"
	CAName             = "serverless-ca"
	caKey              = "ca.crt"
	containerName      = "manager"
	metricsPort        = "metrics"
	metricsPortNumber  = 9090
	metricsServicePort = 8080
	networkPolicyName  = DeploymentName
	leaderBindingName  = AccountName
	configHashLength   = 16
	terminationSeconds = 30
	userID             = 65532
)

// Labels.
const (
	// ManagedBy is the value of LabelManagedBy on all parts.
	ManagedBy      = "rouse-operator"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelOwner holds the UID of the Serverless of a part.
	LabelOwner = "rouse.run/serverless-uid"

	labelModule = "kyma-project.io/module"
	module      = "serverless"
)

// selectorLabels select the pods. They cannot be changed once a Deployment has them.
func selectorLabels() map[string]string {
	return map[string]string{"app": module, "app.kubernetes.io/name": module, "app.kubernetes.io/instance": module}
}

func podLabels() map[string]string {
	labels := selectorLabels()
	labels[labelModule] = module
	labels["app.kubernetes.io/part-of"] = module
	labels["networking.serverless.kyma-project.io/to-apiserver"] = "allowed"
	labels["networking.serverless.kyma-project.io/from-serverless"] = "allowed"
	return labels
}

func objectLabels(owner *operatorv1alpha1.Serverless) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":     module,
		"app.kubernetes.io/instance": module,
		"app.kubernetes.io/part-of":  module,
		LabelManagedBy:               ManagedBy,
		labelModule:                  module,
		LabelOwner:                   string(owner.UID),
	}
}

func account(owner *operatorv1alpha1.Serverless) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(AccountName, owner.Namespace).WithLabels(objectLabels(owner))
}

// clusterBinding grants the account the chart's role of Function controllers, the only one that the operator may bind.
func clusterBinding(owner *operatorv1alpha1.Serverless, installation *Installation) *rbacv1ac.ClusterRoleBindingApplyConfiguration {
	return rbacv1ac.ClusterRoleBinding(installation.Binding).
		WithLabels(objectLabels(owner)).
		WithRoleRef(roleRef(installation.Roles.Functions)).
		WithSubjects(subject(owner))
}

func leaderBinding(owner *operatorv1alpha1.Serverless, installation *Installation) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(leaderBindingName, owner.Namespace).
		WithLabels(objectLabels(owner)).
		WithRoleRef(roleRef(installation.Roles.Leader)).
		WithSubjects(subject(owner))
}

func roleRef(name string) *rbacv1ac.RoleRefApplyConfiguration {
	return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)
}

func subject(owner *operatorv1alpha1.Serverless) *rbacv1ac.SubjectApplyConfiguration {
	return rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(AccountName).WithNamespace(owner.Namespace)
}

// lease is the lease of the leader election, which its holders fill in. It is a part so that it is removed with the
// others.
func lease(owner *operatorv1alpha1.Serverless) *coordinationv1ac.LeaseApplyConfiguration {
	return coordinationv1ac.Lease(LeaseName, owner.Namespace).WithLabels(objectLabels(owner))
}

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

// networkPolicy restricts the peers of the Function controller's pods.
func networkPolicy(owner *operatorv1alpha1.Serverless, rules *NetworkPolicy) (*networkingv1ac.NetworkPolicyApplyConfiguration, error) {
	spec, err := applyconfig.Of[networkingv1ac.NetworkPolicySpecApplyConfiguration](rules)
	if err != nil {
		return nil, err
	}
	spec.WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels())).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	return networkingv1ac.NetworkPolicy(networkPolicyName, owner.Namespace).WithLabels(objectLabels(owner)).WithSpec(spec), nil
}
