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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/dashboard/alerts"
	"github.com/rouse-run/rouse/eventbridge/identity"
)

func TestThereIsNoDashboardByDefault(t *testing.T) {
	t.Parallel()
	for _, object := range of[*corev1.Service](render(t, nil)) {
		require.NotEqual(t, "rouse-dashboard", object.Name)
	}
}

func TestTheDashboardReadsWhatBridgesReportAndNoObjectOfUsers(t *testing.T) {
	t.Parallel()
	for _, changes := range []bool{false, true} {
		set := installations[withDashboard]
		if changes {
			set = installations[withDashboardThatChanges]
		}
		all := render(t, set)
		role := named[*rbacv1.ClusterRole](t, all, "rouse-dashboard")
		for _, right := range allRights() {
			changing := slices.Contains([]identity.Right{identity.Redrive(""), identity.Purge("")}, right)
			require.Equal(t, !changing || changes, grants(role, right), right)
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				require.NotContains(t, []string{"impersonate", "*", "update"}, verb)
			}
			if slices.Contains(rule.APIGroups, "") {
				require.Equal(t, []string{"events"}, rule.Resources, "it notes who has changed what")
				require.Equal(t, []string{"create", "patch"}, rule.Verbs)
				require.True(t, changes)
			}
			require.NotContains(t, rule.APIGroups, "serverless.kyma-project.io", "Functions are read with the user's token")
		}
		own := named[*rbacv1.Role](t, all, "rouse-dashboard")
		require.Len(t, own.Rules, 1)
		require.Equal(t, []string{"list"}, own.Rules[0].Verbs)
		require.Equal(t, changes, slices.Contains(argsOf(t, all, "rouse-dashboard"), "--allow-changes"))
	}
}

func TestTheDashboardsTokenForBridgesIsOfNoUseElsewhere(t *testing.T) {
	t.Parallel()
	all := render(t, installations[withDashboard])
	pod := named[*appsv1.Deployment](t, all, "rouse-dashboard").Spec.Template.Spec
	source := pod.Volumes[0].Projected.Sources[0].ServiceAccountToken
	require.Equal(t, identity.Audience, source.Audience)
	require.Contains(t, pod.Containers[0].Args, "--bridge-token-file="+pod.Containers[0].VolumeMounts[0].MountPath+"/"+source.Path)
}

func TestTheDashboardReadsTheMetricsThatAlertsAreMadeOf(t *testing.T) {
	t.Parallel()
	all := render(t, append(values{"metrics.alerts.backlogEvents=5", "metrics.alerts.backlogFor=1h"}, installations[withDashboard]...))
	var limits string
	for _, arg := range argsOf(t, all, "rouse-dashboard") {
		if text, is := strings.CutPrefix(arg, "--alert-limits="); is {
			limits = text
		}
	}
	parsed, err := alerts.ParseLimits(limits)
	require.NoError(t, err)
	require.InDelta(t, 5, parsed.BacklogEvents, 0)
	require.Equal(t, "1h", parsed.BacklogFor.String())

	dashboard := named[*appsv1.Deployment](t, all, "rouse-dashboard").Spec.Template.Labels
	egress := named[*networkingv1.NetworkPolicy](t, all, "rouse-dashboard").Spec.Egress
	for _, process := range []string{"controller", "eventbridge", "gateway", "scaler"} {
		reached := named[*networkingv1.NetworkPolicy](t, all, "rouse-"+process).Spec
		at := slices.IndexFunc(reached.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool { return r.Ports[0].Port.String() == "metrics" })
		require.GreaterOrEqual(t, at, 0, process)
		require.True(t, slices.ContainsFunc(reached.Ingress[at].From, func(p networkingv1.NetworkPolicyPeer) bool { return selects(t, p.PodSelector, dashboard) }))
		pods := named[*appsv1.Deployment](t, all, "rouse-"+process).Spec.Template.Labels
		require.True(t, slices.ContainsFunc(egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return r.Ports[0].Port.String() == "9090" && selects(t, r.To[0].PodSelector, pods)
		}), process)
	}
}

func TestTheDashboardIsReachedByItsServiceOrAnHTTPRoute(t *testing.T) {
	t.Parallel()
	all := render(t, installations[withDashboard])
	require.Equal(t, int32(80), named[*corev1.Service](t, all, "rouse-dashboard").Spec.Ports[0].Port)
	require.Empty(t, named[*networkingv1.NetworkPolicy](t, all, "rouse-dashboard").Spec.Ingress[0].From)

	all = render(t, installations[withDashboardThatChanges])
	require.Equal(t, int32(443), named[*corev1.Service](t, all, "rouse-dashboard").Spec.Ports[0].Port)
	route := named[*unstructured.Unstructured](t, all, "rouse-dashboard")
	hosts, _, err := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
	require.NoError(t, err)
	require.Equal(t, []string{"rouse.example.com"}, hosts)
	policy := named[*networkingv1.NetworkPolicy](t, all, "rouse-dashboard").Spec
	require.Equal(t, "infra", policy.Ingress[0].From[0].NamespaceSelector.MatchLabels["name"])
	callers := named[*networkingv1.NetworkPolicy](t, all, "rouse-gateway").Spec.Ingress[0].From
	dashboard := named[*appsv1.Deployment](t, all, "rouse-dashboard").Spec.Template.Labels
	require.True(t, slices.ContainsFunc(callers, func(p networkingv1.NetworkPolicyPeer) bool {
		return p.PodSelector != nil && selects(t, p.PodSelector, dashboard)
	}), "users call Functions through gateways")
}
