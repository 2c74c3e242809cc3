package resources

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
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

// Parts are all objects that a Serverless of a namespace may have, in the order in which they are removed: what runs goes before its
// rights, and the lock that it held after it.
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

// Build makes the parts, in the order in which they are applied.
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
