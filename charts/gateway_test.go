package charts

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/internal/activation"
)

func argsOf(t *testing.T, all objects, deployment string) []string {
	t.Helper()
	return named[*appsv1.Deployment](t, all, deployment).Spec.Template.Spec.Containers[0].Args
}

func TestControllerAndScalerGetTheGatewaysHeadlessService(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	service := named[*corev1.Service](t, all, "rouse-gateway")
	require.Equal(t, corev1.ClusterIPNone, service.Spec.ClusterIP)
	require.Equal(t, "load", service.Spec.Ports[0].Name)
	require.Equal(t, int32(9091), service.Spec.Ports[0].Port)
	require.Contains(t, argsOf(t, all, "rouse-gateway"), "--load-address=:9091")
	for _, name := range []string{"rouse-controller", "rouse-scaler"} {
		require.Contains(t, argsOf(t, all, name), "--gateway-service="+namespace+"/"+service.Name)
	}
}

func TestDisabledGatewayHasNoObjectsOrReferences(t *testing.T) {
	t.Parallel()
	all := render(t, values{"gateway.enabled=false", "metrics.podMonitor.enabled=true"})
	for _, object := range all {
		require.NotContains(t, object.GetName(), "gateway", "%T", object)
	}
	for _, name := range []string{"rouse-controller", "rouse-scaler"} {
		require.NotContains(t, strings.Join(argsOf(t, all, name), " "), "gateway-service", name)
	}
	for _, rule := range named[*networkingv1.NetworkPolicy](t, all, "rouse-scaler").Spec.Egress {
		for _, port := range rule.Ports {
			require.NotContains(t, []string{"9091", "8080"}, port.Port.String())
		}
	}
}

func TestGatewayPolicyAllowsCallsFromEveryoneAndLoadRequestsFromTwoComponents(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	policy := named[*networkingv1.NetworkPolicy](t, all, "rouse-gateway").Spec
	require.Len(t, policy.Ingress, 2)

	calls := policy.Ingress[0]
	require.Empty(t, calls.From, "every client that may call a Function's pods may wake it")
	require.Len(t, calls.Ports, 1)
	require.Equal(t, activation.FirstPort, calls.Ports[0].Port.IntValue())
	require.Equal(t, int32(activation.LastPort), ptr.Deref(calls.Ports[0].EndPort, 0))

	load := policy.Ingress[1]
	require.Len(t, load.Ports, 1)
	require.Equal(t, "load", load.Ports[0].Port.String())
	require.Len(t, load.From, 1)
	require.Nil(t, load.From[0].NamespaceSelector, "only of the release's namespace")
	askers, err := metav1.LabelSelectorAsSelector(load.From[0].PodSelector)
	require.NoError(t, err)
	for _, w := range workloads(all) {
		require.Equal(t, slices.Contains([]string{"controller", "scaler"}, w.component()), askers.Matches(labels.Set(w.Pod.Labels)), w.GetName())
	}
}

func TestScalerPolicyAllowsLoadRequestsToGatewaysAndPods(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	var gateways, pods int
	for _, rule := range named[*networkingv1.NetworkPolicy](t, all, "rouse-scaler").Spec.Egress {
		switch rule.Ports[0].Port.String() {
		case "9091":
			gateways++
			require.Equal(t, "gateway", rule.To[0].PodSelector.MatchLabels["app.kubernetes.io/component"])
		case "8080":
			pods++
			require.NotNil(t, rule.To[0].NamespaceSelector, "Functions are in any namespace of the cluster")
		}
	}
	require.Equal(t, []int{1, 1}, []int{gateways, pods})
}

func TestScalerAndGatewayHaveTheSameGrace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		set   values
		grace string
		ends  int64
	}{{nil, "15s", 230}, {values{"gateway.graceSeconds=90", "gateway.drainTimeoutSeconds=30"}, "90s", 155}} {
		all := render(t, tc.set)
		require.Contains(t, argsOf(t, all, "rouse-scaler"), "--activator-grace="+tc.grace)
		require.Contains(t, argsOf(t, all, "rouse-gateway"), "--drain-delay="+tc.grace)
		pod := named[*appsv1.Deployment](t, all, "rouse-gateway").Spec.Template.Spec
		require.Equal(t, tc.ends, ptr.Deref(pod.TerminationGracePeriodSeconds, 0), "until it is not listed, the delay, then the drain, and some seconds to end")
	}
}

func TestMetricsOfTheGatewayAreScraped(t *testing.T) {
	t.Parallel()
	all := render(t, values{"metrics.podMonitor.enabled=true"})
	monitored := slices.ContainsFunc(of[*unstructured.Unstructured](all), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "PodMonitor" && o.GetName() == "rouse-gateway"
	})
	require.True(t, monitored)
}
