package charts

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/flags"
)

// installationOf returns the description of the installation for its operator.
func installationOf(t *testing.T, all objects) *resources.Installation {
	t.Helper()
	read, err := resources.ParseInstallation([]byte(named[*corev1.ConfigMap](t, all, "rouse-installation").Data["installation.yaml"]))
	require.NoError(t, err)
	return read
}

// broughtBy returns the Deployment and the NetworkPolicy of the Function controller that an operator creates.
func broughtBy(t *testing.T, installation *resources.Installation) (*appsv1.Deployment, *networkingv1.NetworkPolicy) {
	t.Helper()
	owner := &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: "default", UID: "1"}}
	settings, err := resources.Resolve(&owner.Spec, installation, resources.Found{})
	require.NoError(t, err)
	parts, err := resources.Build(owner, installation, &settings)
	require.NoError(t, err)
	deployment, policy := &appsv1.Deployment{}, &networkingv1.NetworkPolicy{}
	for _, part := range parts {
		switch part.GroupVersionKind() {
		case resources.KindDeployment:
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(part.Object, deployment))
		case resources.KindNetworkPolicy:
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(part.Object, policy))
		}
	}
	return deployment, policy
}

func TestOperatorInstallsTheSameFunctionControllerAsTheChart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{operated, operatedAnywhere} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := installations[name]
			without := slices.DeleteFunc(slices.Clone(with), func(value string) bool { return strings.HasPrefix(value, "operator.") })
			all, plain := render(t, with), render(t, without)
			brought, policy := broughtBy(t, installationOf(t, all))
			own := named[*appsv1.Deployment](t, plain, "rouse-controller")
			left := named[*appsv1.Deployment](t, all, "rouse-controller")
			requireSameFlags(t, own, brought, left)
			requireSamePods(t, own, brought)

			owns := named[*networkingv1.NetworkPolicy](t, plain, "rouse-controller")
			require.True(t, equality.Semantic.DeepEqual(owns.Spec.Ingress, policy.Spec.Ingress), "%v, and not %v", owns.Spec.Ingress, policy.Spec.Ingress)
			require.Equal(t, owns.Spec.PolicyTypes, policy.Spec.PolicyTypes)
			nats := func(rule networkingv1.NetworkPolicyEgressRule) bool {
				return len(rule.Ports) > 0 && rule.Ports[0].Port != nil && rule.Ports[0].Port.IntValue() == 4222
			}
			require.Equal(t, slices.DeleteFunc(slices.Clone(owns.Spec.Egress), nats), policy.Spec.Egress)
		})
	}
}

// requireSameFlags compares the flags of the chart's controller with those of the two processes that share its work.
func requireSameFlags(t *testing.T, own, brought, left *appsv1.Deployment) {
	t.Helper()
	only := func(args, others []string) []string {
		return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return slices.Contains(others, arg) })
	}
	args := func(d *appsv1.Deployment) []string { return d.Spec.Template.Spec.Containers[0].Args }
	require.Empty(t, only(args(own), slices.Concat(args(brought), args(left))), "no flag is lost")
	require.ElementsMatch(t, []string{
		"--controllers=functions", "--config-map=kyma-system/serverless-config", "--log-config-map=kyma-system/serverless-log-config",
		"--leader-elect-namespace=kyma-system", "--leader-elect-lease=serverless-controller-leader-election-helper",
	}, only(args(brought), args(own)))
	require.Contains(t, args(left), "--controllers=activators,apirules,subscriptions")
	require.NotContains(t, strings.Join(args(brought), " "), "--nats-", "it has no login there")

	fs := pflag.NewFlagSet("of Functions", pflag.ContinueOnError)
	functions, registries, repositories, collector := function.DefaultOptions(), images.DefaultRegistryOptions(), gitpoll.DefaultOptions(), images.DefaultOptions()
	flags.Bind(fs, &functions, &registries, &repositories, &collector)
	for _, arg := range args(own) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); fs.Lookup(name) != nil {
			require.Contains(t, args(brought), arg, "a flag of the Function controller belongs into rouse.functionArgs")
		}
	}
}

// requireSamePods compares all other fields of the pods. Expected differences are listed here.
func requireSamePods(t *testing.T, own, brought *appsv1.Deployment) {
	t.Helper()
	want, got := own.Spec.Template.Spec.DeepCopy(), brought.Spec.Template.Spec.DeepCopy()
	require.Equal(t, resources.AccountName, got.ServiceAccountName)
	want.ServiceAccountName = got.ServiceAccountName
	process := &want.Containers[0]
	process.Name, process.Args = got.Containers[0].Name, got.Containers[0].Args
	for i := range want.TopologySpreadConstraints {
		want.TopologySpreadConstraints[i].LabelSelector = brought.Spec.Selector
	}
	for i := range want.Volumes {
		if want.Volumes[i].Name == "ca" {
			want.Volumes[i].ConfigMap.Name = resources.CAName
		}
	}
	text := func(spec *corev1.PodSpec) string {
		encoded, err := yaml.Marshal(spec)
		require.NoError(t, err)
		return string(encoded)
	}
	require.Equal(t, text(want), text(got))
	require.Equal(t, own.Spec.Replicas, brought.Spec.Replicas)
	if annotation := "example.com/a"; own.Spec.Template.Annotations[annotation] != "" {
		require.Equal(t, own.Spec.Template.Annotations[annotation], brought.Spec.Template.Annotations[annotation])
	}
}

func TestInstalledFunctionControllerSupportsItsFlags(t *testing.T) {
	t.Parallel()
	dir, err := binaries()
	require.NoError(t, err)
	for _, name := range []string{operated, operatedAnywhere} {
		brought, _ := broughtBy(t, installationOf(t, renderedInstallations(t)[name]))
		container := brought.Spec.Template.Spec.Containers[0]
		args := slices.Concat(container.Command[1:], container.Args, []string{"--help"})
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, container.Command[0]), args...).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
}
