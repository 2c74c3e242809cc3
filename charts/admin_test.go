package charts

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

func TestTheAdminAPIHasAPortAServiceAndNoTokenOfItsOwn(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	container := named[*appsv1.Deployment](t, all, "rouse-eventbridge").Spec.Template.Spec.Containers[0]
	require.Contains(t, container.Args, "--admin-address=:9091")
	require.NotContains(t, strings.Join(container.Args, " "), "token")
	for _, secret := range of[*corev1.Secret](all) {
		require.NotContains(t, secret.Name, "admin")
	}
	service := named[*corev1.Service](t, all, "rouse-eventbridge-admin")
	require.Empty(t, service.Spec.Type, "it is unreachable from outside the cluster")
	require.Equal(t, int32(9091), service.Spec.Ports[0].Port)
	require.True(t, slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
		return p.Name == service.Spec.Ports[0].TargetPort.String() && p.ContainerPort == 9091
	}))
	for _, port := range named[*corev1.Service](t, all, "rouse-eventbridge").Spec.Ports {
		require.NotEqual(t, "admin", port.TargetPort.String(), "publishers reach it")
	}
}

// allRights returns all permissions that the admin API checks.
func allRights() []identity.Right {
	return []identity.Right{
		identity.ListSubscriptions(""), identity.ListDeadLetters(""), identity.GetDeadLetter(""),
		identity.Redrive(""), identity.Purge(""), identity.ListEvents(""), identity.WatchEvents(""),
	}
}

// grants reports whether a role includes a permission, as RBAC does.
func grants(role *rbacv1.ClusterRole, right identity.Right) bool {
	resource := right.Resource
	if right.Subresource != "" {
		resource += "/" + right.Subresource
	}
	return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, right.Group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, right.Verb)
	})
}

func TestRolesGrantThePermissionsOfTheAdminAPI(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	view, edit := named[*rbacv1.ClusterRole](t, all, "rouse-view"), named[*rbacv1.ClusterRole](t, all, "rouse-edit")
	require.Equal(t, "true", view.Labels["rbac.authorization.k8s.io/aggregate-to-view"])
	require.Equal(t, "true", edit.Labels["rbac.authorization.k8s.io/aggregate-to-edit"])
	for _, right := range allRights() {
		reads := right.Verb == "list" || right.Verb == "watch"
		require.Equal(t, reads, grants(view, right), "view must not read events or write: %s", right)
		require.True(t, grants(edit, right) || grants(view, right), "edit must include view, by aggregation: %s", right)
		require.True(t, grants(named[*rbacv1.ClusterRole](t, all, "rouse-admin"), right), right)
	}
	binding := named[*rbacv1.ClusterRoleBinding](t, all, "rouse-admin")
	require.Equal(t, "rouse-admin", binding.RoleRef.Name)
	require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "rouse-admin", Namespace: namespace}}, binding.Subjects)
	account := named[*corev1.ServiceAccount](t, all, "rouse-admin")
	require.False(t, *account.AutomountServiceAccountToken)
	require.False(t, slices.ContainsFunc(of[*appsv1.Deployment](all), func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.ServiceAccountName == account.Name
	}), "no pod may mount its token")
}

func TestADisabledAdminAPIHasNoObjects(t *testing.T) {
	t.Parallel()
	all := render(t, values{"eventbridge.admin.enabled=false"})
	for _, object := range all {
		require.NotContains(t, object.GetName(), "admin")
	}
	container := named[*appsv1.Deployment](t, all, "rouse-eventbridge").Spec.Template.Spec.Containers[0]
	require.NotContains(t, strings.Join(container.Args, " "), "admin")
	require.Len(t, container.Ports, 2)
	require.Len(t, named[*networkingv1.NetworkPolicy](t, all, "rouse-eventbridge").Spec.Ingress, 1)
}

func TestNetworkPolicyDeniesAdminAPIToOtherNamespaces(t *testing.T) {
	t.Parallel()
	from := func(set values) []networkingv1.NetworkPolicyPeer {
		for _, rule := range named[*networkingv1.NetworkPolicy](t, render(t, set), "rouse-eventbridge").Spec.Ingress {
			if rule.Ports[0].Port.String() == "admin" {
				require.Len(t, rule.Ports, 1)
				return rule.From
			}
		}
		return nil
	}
	byDefault := from(nil)
	require.Len(t, byDefault, 1)
	require.NotNil(t, byDefault[0].PodSelector)
	require.Nil(t, byDefault[0].NamespaceSelector, "pods of other namespaces are admitted")
	opened := from(values{"networkPolicies.adminFrom[0].namespaceSelector.matchLabels.name=operators"})
	require.Len(t, opened, 2)
	require.Equal(t, map[string]string{"name": "operators"}, opened[1].NamespaceSelector.MatchLabels)
}
