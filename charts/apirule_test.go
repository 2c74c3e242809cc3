package charts

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAReleaseDoesNotTakeTheCRDOfAPIRulesFromAnotherOwner(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	try := tryHelmOn(t, env.Config)
	install := []string{"install", "rouse", chart, "--take-ownership", "--dry-run=server", "--set", "apiRules.enabled=true"}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "apirules.gateway.kyma-project.io"}, crd))
	kymas := crd.DeepCopy()
	change := func(labels, annotations map[string]string) {
		changed := crd.DeepCopy()
		changed.Labels, changed.Annotations = labels, annotations
		require.NoError(t, env.Client.Patch(context.WithoutCancel(t.Context()), changed, client.MergeFrom(crd)))
		crd = changed
	}
	t.Cleanup(func() { change(kymas.Labels, kymas.Annotations) })

	out, err := try(install...)
	require.Error(t, err, out)
	require.Contains(t, out, "CustomResourceDefinition apirules.gateway.kyma-project.io exists and is not of Rouse")
	require.Contains(t, out, "Set apiRules.enabled=false")
	out, err = try(append(install, "--set", "crds.enabled=false")...)
	require.NoError(t, err, "a release without the CRD: "+out)
	out, err = try(append(install, "--set", "apiRules.enabled=false")...)
	require.NoError(t, err, out)

	change(map[string]string{"app.kubernetes.io/part-of": "kyma"}, map[string]string{
		"meta.helm.sh/release-name": "rouse", "meta.helm.sh/release-namespace": "kyma-system",
	})
	out, err = try(install...)
	require.Error(t, err, "a release of that name in another namespace: "+out)

	change(nil, map[string]string{"meta.helm.sh/release-name": "rouse", "meta.helm.sh/release-namespace": namespace})
	out, err = try(install...)
	require.NoError(t, err, "it is of this release: "+out)

	change(map[string]string{"app.kubernetes.io/part-of": "rouse"}, nil)
	out, err = try(install...)
	require.NoError(t, err, "the CRD of an earlier release of Rouse: "+out)
}

// controllerOf returns the arguments of the controller, and the API groups of its permissions.
func controllerOf(t *testing.T, set values) (args, groups []string) {
	t.Helper()
	all := render(t, set)
	for _, role := range of[*rbacv1.ClusterRole](all) {
		if role.Name == "rouse-controller" {
			for _, rule := range role.Rules {
				groups = append(groups, rule.APIGroups...)
			}
		}
	}
	return named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args, groups
}

func TestControllerGetsTheGatewaysThatAPIRulesMayName(t *testing.T) {
	t.Parallel()
	args, groups := controllerOf(t, installations["with APIRules of all kinds"])
	for _, want := range []string{
		"--apirules", "--gateway-domain=kyma-system/kyma-gateway=example.com", "--gateway-api", "--authorizers=sessions",
		"--apirules-service=" + namespace + "/rouse-gateway-http", "--gateway-service=" + namespace + "/rouse-gateway",
	} {
		require.Contains(t, args, want)
	}
	require.Contains(t, groups, "gateway.kyma-project.io")
	require.Contains(t, groups, "gateway.networking.k8s.io")

	args, groups = controllerOf(t, nil)
	require.False(t, slices.Contains(args, "--apirules"))
	require.NotContains(t, groups, "gateway.kyma-project.io", "whoever serves them has them alone")
	require.NotContains(t, groups, "gateway.networking.k8s.io")
}

func TestGatewayAPIIsUsedWhereItIsInstalled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wanted string
		there  []string
		want   bool
	}{
		"installed":                   {"auto", []string{"--api-versions=gateway.networking.k8s.io/v1"}, true},
		"not installed":               {"auto", nil, false},
		"installed later":             {"enabled", nil, true},
		"installed but disabled":      {"disabled", []string{"--api-versions=gateway.networking.k8s.io/v1"}, false},
		"installed in an old version": {"auto", []string{"--api-versions=gateway.networking.k8s.io/v1beta1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := append([]string{"template", "rouse", chart, "--show-only=templates/controller/deployment.yaml", "--show-only=templates/controller/rbac.yaml"}, tc.there...)
			out, stderr, err := runHelm(t.Context(), command, values{"apiRules.enabled=true", "apiRules.gatewayAPI=" + tc.wanted})
			require.NoError(t, err, stderr)
			require.Equal(t, tc.want, strings.Contains(out, "- --gateway-api\n"))
			require.Equal(t, tc.want, strings.Contains(out, "resources: [httproutes]"))
			require.Equal(t, tc.want, strings.Contains(out, "resources: [referencegrants]"))
		})
	}
}
