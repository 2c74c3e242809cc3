package charts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestTheNotesSayHowUsersReachTheDashboard(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	installHTTPRoutes(t, env.Client)
	try := tryHelmOn(t, env.Config)
	notes := func(set ...string) string {
		args := []string{"install", "rouse", chart, "--take-ownership", "--dry-run=server"}
		for _, each := range set {
			args = append(args, "--set", each)
		}
		out, text, found := "", "", false
		require.Eventually(t, func() bool { // the API server announces the new kind soon
			out, _ = try(args...)
			_, text, found = strings.Cut(out, "\nNOTES:\n")
			return found
		}, time.Minute, time.Second, "helm printed %s", &out)
		return text
	}
	const token = "kubectl -n NAMESPACE create token SERVICEACCOUNT"
	public := notes("dashboard.enabled=true", "dashboard.host=rouse.example.com", "dashboard.gateway=infra/public")
	require.Contains(t, public, "https://rouse.example.com")
	require.Contains(t, public, token)
	require.NotContains(t, public, "svc/rouse-dashboard")
	plain := notes("dashboard.enabled=true")
	require.Contains(t, plain, "kubectl -n "+namespace+" port-forward svc/rouse-dashboard 8081:80     # http://localhost:8081")
	require.Contains(t, plain, token)
	require.Contains(t, plain, "dashboard.allowChanges=true")
	encrypted := notes("dashboard.enabled=true", "dashboard.tls.secret=mine", "dashboard.allowChanges=true")
	require.Contains(t, encrypted, "port-forward svc/rouse-dashboard 8443:443     # https://localhost:8443")
	require.NotContains(t, encrypted, "It changes nothing")
	require.NotContains(t, notes(), "dashboard")
}

// installHTTPRoutes has the cluster take HTTPRoutes of any form until the test ends.
func installHTTPRoutes(t *testing.T, api client.Client) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "httproutes.gateway.networking.k8s.io", Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "gateway.networking.k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "httproutes", Kind: "HTTPRoute"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
			}}},
		},
	}
	require.NoError(t, api.Create(t.Context(), crd))
	t.Cleanup(func() { require.NoError(t, api.Delete(context.WithoutCancel(t.Context()), crd)) })
}

func TestUsersLogInAtTheIssuerThatIsNamedAndTheSecretIsAFile(t *testing.T) {
	t.Parallel()
	all := render(t, installations[withDashboardAndIssuer])
	pod := named[*appsv1.Deployment](t, all, "rouse-dashboard").Spec.Template.Spec
	args := argsOf(t, all, "rouse-dashboard")
	for _, want := range []string{
		"--oidc-issuer=https://login.example.com:8443/realms/one", "--oidc-client-id=rouse", "--oidc-home=http://localhost:8080", "--oidc-name=Example, Inc.",
		"--oidc-scopes=email,offline_access", "--oidc-client-secret-file=/etc/rouse/issuer/client-secret", "--oidc-ca-file=/etc/rouse/issuer-ca/ca.crt",
	} {
		require.Contains(t, args, want)
	}
	mounted := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounted[mount.Name] = mount.MountPath
	}
	require.Equal(t, "/etc/rouse/issuer", mounted["issuer"])
	require.Equal(t, "/etc/rouse/issuer-ca", mounted["issuer-ca"])
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "issuer" })
	require.Equal(t, "issuer", pod.Volumes[at].Secret.SecretName)
	require.Equal(t, []corev1.KeyToPath{{Key: "client-secret", Path: "client-secret"}}, pod.Volumes[at].Secret.Items)
	require.Equal(t, certificate, named[*corev1.ConfigMap](t, all, "rouse-dashboard").Data["ca.crt"])
	allowed := false
	for _, rule := range named[*networkingv1.NetworkPolicy](t, all, "rouse-dashboard").Spec.Egress {
		allowed = allowed || len(rule.To) == 0 && slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == 8443 })
	}
	require.True(t, allowed, "the issuer is reached at its port")

	args = argsOf(t, render(t, slices.Concat(installations[withDashboardThatChanges], values{
		"dashboard.oidc.issuer=https://login.example.com", "dashboard.oidc.clientID=public",
	})), "rouse-dashboard")
	require.Contains(t, args, "--oidc-home=https://rouse.example.com", "that is where the HTTPRoute leads from")
	require.Contains(t, args, "--oidc-scopes=email")
	for _, arg := range args {
		require.NotContains(t, arg, "--oidc-client-secret-file", "the client is public")
	}
}
