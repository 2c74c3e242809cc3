package charts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

func TestNoPermissionIsAWildcardAndOnlyTheControllerReadsSecrets(t *testing.T) {
	t.Parallel()
	for _, all := range renderedInstallations(t) {
		require.NotEmpty(t, of[*rbacv1.ClusterRole](all))
		for _, role := range of[*rbacv1.ClusterRole](all) {
			requireNarrow(t, role.Name, role.Rules)
		}
		for _, role := range of[*rbacv1.Role](all) {
			requireNarrow(t, role.Name, role.Rules)
		}
	}
}

func requireNarrow(t *testing.T, role string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
			require.NotEmpty(t, list, role)
			require.NotContains(t, list, "*", role)
		}
		require.Empty(t, rule.NonResourceURLs, role)
		if role != "rouse-controller" && role != "rouse-functions" { // which needs the Secrets that Functions name
			if role == "rouse-credentials" && (len(rule.ResourceNames) > 0 || slices.Equal(rule.Verbs, []string{"create"})) {
				continue // limited to those that it creates; creation cannot be limited by name
			}
			if role == "rouse-eventbridge" && slices.Equal(rule.ResourceNames, []string{"rouse-doors"}) {
				continue // the keys of Doors alone
			}
			require.NotContains(t, rule.Resources, "secrets", role)
		}
		for _, verb := range []string{"escalate", "bind", "impersonate"} {
			if role == "rouse-operator" && verb == "bind" && len(rule.ResourceNames) > 0 {
				continue // see operator_test.go
			}
			require.NotContains(t, rule.Verbs, verb, role)
		}
	}
}

func TestTheDataPlaneOnlyReads(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	for _, name := range []string{"rouse-eventbridge", "rouse-gateway", "rouse-scaler"} {
		for _, rule := range named[*rbacv1.ClusterRole](t, all, name).Rules {
			require.Subset(t, []string{"get", "list", "watch"}, rule.Verbs, name)
		}
	}
}

// An endpoint requires a pod of the Service's namespace with its address.
func TestTheDataPlaneListsAndWatchesPodsAndNoPartOfThem(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	for _, name := range []string{"rouse-eventbridge", "rouse-gateway", "rouse-scaler"} {
		var found []rbacv1.PolicyRule
		for _, rule := range named[*rbacv1.ClusterRole](t, all, name).Rules {
			if slices.ContainsFunc(rule.Resources, func(resource string) bool { return strings.HasPrefix(resource, "pods") }) {
				found = append(found, rule)
			}
		}
		require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}, found, name)
	}
}

func TestEveryBindingNamesARoleAndAnAccountOfTheRelease(t *testing.T) {
	t.Parallel()
	for _, all := range renderedInstallations(t) {
		for _, binding := range of[*rbacv1.ClusterRoleBinding](all) {
			named[*rbacv1.ClusterRole](t, all, binding.RoleRef.Name)
			require.Equal(t, namespace, binding.Subjects[0].Namespace)
			named[*corev1.ServiceAccount](t, all, binding.Subjects[0].Name)
		}
		for _, w := range workloads(all) {
			if w.component() == "nats" || w.component() == "registry" {
				require.False(t, *w.Pod.Spec.AutomountServiceAccountToken)
				continue
			}
			named[*corev1.ServiceAccount](t, all, w.Pod.Spec.ServiceAccountName)
		}
	}
}

func TestServicesLeadToNamedPortsOfOneWorkload(t *testing.T) {
	t.Parallel()
	for _, all := range renderedInstallations(t) {
		for _, service := range of[*corev1.Service](all) {
			if service.Spec.Selector == nil {
				continue // the controller keeps its endpoints
			}
			var behind []workload
			for _, w := range workloads(all) {
				if labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(w.Pod.Labels)) {
					behind = append(behind, w)
				}
			}
			require.Len(t, behind, 1, service.Name)
			for _, port := range service.Spec.Ports {
				require.Equal(t, intstr.String, port.TargetPort.Type, service.Name)
				require.True(t, slices.ContainsFunc(behind[0].Pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
					return p.Name == port.TargetPort.StrVal
				}), "%s: port %s", service.Name, port.TargetPort.StrVal)
			}
		}
	}
}

func TestServicePortsAndAddressFlagsAgree(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	require.Equal(t, int32(80), named[*corev1.Service](t, all, "rouse-eventbridge").Spec.Ports[0].Port)
	require.Equal(t, int32(4222), named[*corev1.Service](t, all, "rouse-nats").Spec.Ports[0].Port)
	require.Equal(t, int32(5000), named[*corev1.Service](t, all, "rouse-registry").Spec.Ports[0].Port)
	scaler := named[*corev1.Service](t, all, "rouse-scaler")
	require.Equal(t, int32(9000), scaler.Spec.Ports[0].Port)
	require.Equal(t, corev1.ClusterIPNone, scaler.Spec.ClusterIP)

	require.Subset(t, named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args, []string{
		"--publisher-address=http://rouse-eventbridge.rouse-system.svc.cluster.local/publish",
		"--scaler-address=rouse-scaler.rouse-system.svc.cluster.local:9000",
		"--nats-url=nats://rouse-nats.rouse-system.svc.cluster.local:4222",
		"--runtime-image=nodejs22=ghcr.io/rouse-run/rouse-runtime-nodejs22:0.1.0",
		"--builder-image=ghcr.io/rouse-run/rouse:0.1.0",
		"--release-namespace=rouse-system",
	})
}

func TestRuntimesFollowTheImageUnlessTheyHaveTheirOwn(t *testing.T) {
	t.Parallel()
	all := render(t, values{
		"image.repository=localhost:5000/mine/rouse", "image.tag=dev",
		"runtimes.nodejs20=null", "runtimes.python312=registry.example.com/python:3",
	})
	args := named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args
	require.Contains(t, args, "--runtime-image=nodejs22=localhost:5000/mine/rouse-runtime-nodejs22:dev")
	require.Contains(t, args, "--runtime-image=python312=registry.example.com/python:3")
	for _, arg := range args {
		require.NotContains(t, arg, "nodejs20")
	}

	local := render(t, values{"image.repository=rouse", "image.tag=dev"})
	require.Contains(t, named[*appsv1.Deployment](t, local, "rouse-controller").Spec.Template.Spec.Containers[0].Args,
		"--runtime-image=nodejs22=rouse-runtime-nodejs22:dev")
}

func TestCRDsAreRenderedAsGeneratedAndKeptByDefault(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 6)
	all := values{"apiRules.enabled=true", "operator.enabled=true"}
	kept, dropped := render(t, all), render(t, append(slices.Clone(all), "crds.keep=false"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		generated := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(text, generated))

		rendered := named[*apiextensionsv1.CustomResourceDefinition](t, kept, generated.Name)
		require.Equal(t, generated.Spec, rendered.Spec)
		require.Equal(t, "keep", rendered.Annotations["helm.sh/resource-policy"])
		rendered = named[*apiextensionsv1.CustomResourceDefinition](t, dropped, generated.Name)
		require.Equal(t, generated.Annotations, rendered.Annotations)
	}
	require.Empty(t, of[*apiextensionsv1.CustomResourceDefinition](render(t, append(slices.Clone(all), "crds.enabled=false"))))
}

func TestOptionalCRDsAreRenderedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	for _, crd := range of[*apiextensionsv1.CustomResourceDefinition](render(t, nil)) {
		require.NotContains(t, []string{"gateway.kyma-project.io", "operator.kyma-project.io"}, crd.Spec.Group)
	}
}

func TestThePersistenceOfNATSFollowsItsValues(t *testing.T) {
	t.Parallel()
	stored := named[*appsv1.StatefulSet](t, render(t, nil), "rouse-nats")
	require.Len(t, stored.Spec.VolumeClaimTemplates, 1)
	require.Equal(t, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, stored.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted)

	removed := named[*appsv1.StatefulSet](t, render(t, values{"nats.persistence.keep=false"}), "rouse-nats")
	require.Equal(t, appsv1.DeletePersistentVolumeClaimRetentionPolicyType, removed.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted)

	trial := named[*appsv1.StatefulSet](t, render(t, values{"nats.persistence.enabled=false"}), "rouse-nats")
	require.Empty(t, trial.Spec.VolumeClaimTemplates)
	require.NotNil(t, trial.Spec.Template.Spec.Volumes[1].EmptyDir)
	require.Empty(t, of[*appsv1.StatefulSet](render(t, installations["highly available and watched"])))
}
