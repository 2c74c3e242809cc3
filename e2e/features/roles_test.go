//go:build e2e

package features

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// What a network makes of it is not seen here: that of the local cluster enforces no NetworkPolicies.
func TestAFunctionHasItsNetworkPolicyForAsLongAsItIsThere(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	controller := &appsv1.Deployment{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: framework.System, Name: "rouse-controller"}, controller))
	if !slices.ContainsFunc(controller.Spec.Template.Spec.Containers[0].Args, func(arg string) bool {
		return strings.HasPrefix(arg, "--function-network-policy=")
	}) {
		t.Skip("this release has no NetworkPolicies of Functions")
	}
	function := framework.Function{Name: "bounded", Runtime: "nodejs22", Source: "module.exports.main = () => 'ok'"}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "bounded", "Running", "True", 2*time.Minute))

	policy := &networkingv1.NetworkPolicy{}
	key := client.ObjectKey{Namespace: namespace, Name: "rouse-bounded"}
	require.NoError(t, cluster.Get(t.Context(), key, policy))
	require.Equal(t, "Function", metav1.GetControllerOf(policy).Kind)
	pods, system := &corev1.PodList{}, &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels(policy.Spec.PodSelector.MatchLabels)))
	require.Len(t, pods.Items, 1, "it selects the Function's pod")
	require.Zero(t, *pods.Items[0].Spec.Priority, "Functions have no priority")

	callers, err := metav1.LabelSelectorAsSelector(policy.Spec.Ingress[0].From[0].PodSelector)
	require.NoError(t, err)
	require.NoError(t, cluster.List(t.Context(), system, client.InNamespace(framework.System), client.MatchingLabels{"app.kubernetes.io/part-of": "rouse"}))
	admitted := map[string]bool{}
	for _, pod := range system.Items {
		require.Equal(t, int32(2000000), *pod.Spec.Priority, pod.Name)
		if callers.Matches(labels.Set(pod.Labels)) {
			admitted[pod.Labels["app.kubernetes.io/component"]] = true
		}
	}
	require.Equal(t, map[string]bool{"eventbridge": true, "gateway": true, "scaler": true}, admitted)

	widened := policy.DeepCopy()
	widened.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	require.NoError(t, cluster.Update(t.Context(), widened))
	require.Eventually(t, func() bool {
		found := &networkingv1.NetworkPolicy{}
		return cluster.Get(t.Context(), key, found) == nil && len(found.Spec.Ingress[0].From) == len(policy.Spec.Ingress[0].From)
	}, time.Minute, 100*time.Millisecond, "what others widen is repaired")
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bounded"}}
	gone.SetGroupVersionKind(framework.FunctionGVK)
	require.NoError(t, cluster.Delete(t.Context(), gone))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(cluster.Get(t.Context(), key, policy))
	}, 2*time.Minute, 200*time.Millisecond, "it goes with its Function")
}

// The API server of the tests adds up no roles; a cluster does.
func TestKubernetesOwnRolesHoldTheRightsOnWhatRouseServes(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	may := func(user, verb, group, resource string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource},
		}}
		require.NoError(t, cluster.Create(t.Context(), review))
		return review.Status.Allowed
	}
	for _, role := range []string{"view", "edit", "admin"} {
		require.NoError(t, cluster.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		}))
		require.Eventually(t, func() bool { return may(role, "get", "serverless.kyma-project.io", "functions") }, time.Minute, 50*time.Millisecond)
		for group, resource := range map[string]string{
			"serverless.kyma-project.io": "functions", "eventing.kyma-project.io": "subscriptions", "gateway.kyma-project.io": "apirules",
		} {
			require.True(t, may(role, "list", group, resource), "%s: %s", role, resource)
			require.Equal(t, role != "view", may(role, "delete", group, resource), "%s: %s", role, resource)
		}
	}
}
