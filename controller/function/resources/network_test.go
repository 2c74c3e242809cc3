package resources

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
)

// releasePods are pods of the installation, as the chart selects them.
func releasePods(components ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "rouse-system"}},
		PodSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app.kubernetes.io/name": "rouse"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app.kubernetes.io/component", Operator: metav1.LabelSelectorOpIn, Values: components},
			},
		},
	}
}

func namespace(name string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
	}
}

func address(cidr string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}
}

// bounded returns settings with NetworkPolicies.
func bounded(changes ...func(*Settings)) *Settings {
	s := settings()
	s.Network = &NetworkRules{
		Callers: []networkingv1.NetworkPolicyPeer{releasePods("eventbridge", "gateway", "scaler")},
		Publisher: Publisher{
			Address: s.PublisherAddress, To: []networkingv1.NetworkPolicyPeer{releasePods("eventbridge")}, Ports: []int32{8080},
		},
		DNSTo:    []networkingv1.NetworkPolicyPeer{namespace("kube-system"), address("169.254.20.10/32")},
		DNSPorts: []int32{53, 8053},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func TestNetworkPoliciesAreAsInTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]*Settings{
		"networkpolicy": bounded(),
		"networkpolicy-everything": bounded(func(s *Settings) {
			s.PublisherAddress = "http://events.messaging.svc.cluster.local:8081/publish"
			s.TraceCollectorEndpoint = "http://10.0.0.9:4318/v1/traces"
			s.Network.From = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}, namespace("monitoring")}
			s.Network.DNSTo, s.Network.DNSPorts = nil, []int32{5353}
			s.Network.Egress = []networkingv1.NetworkPolicyEgressRule{{
				To: []networkingv1.NetworkPolicyPeer{address("10.1.0.0/16")}, Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(5432))}},
			}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy, err := NetworkPolicy(function(), settings)
			require.NoError(t, err)
			requireGolden(t, name, policy)
		})
	}
}

func TestNetworkPolicyAllowsOnlyTheInstallationsURLs(t *testing.T) {
	t.Parallel()
	for url, tc := range map[string]struct {
		peer networkingv1.NetworkPolicyPeer
		port int32 // 0: no port is opened
	}{
		"http://collector.observe:4318/v1/traces":        {namespace("observe"), 4318},
		"http://collector.observe.svc:4318":              {namespace("observe"), 4318},
		"https://collector.observe.svc.cluster.local/v1": {namespace("observe"), 443},
		"http://collector.observe.svc.cluster.local/v1":  {namespace("observe"), 80},
		"http://10.0.0.9/v1/traces":                      {address("10.0.0.9/32"), 80},
		"http://[fd00::9]:4318":                          {address("fd00::9/128"), 4318},
		"http://[::ffff:10.0.0.9]:4318":                  {address("10.0.0.9/32"), 4318},
		"https://traces.example.com/v1/traces":           {},
		"https://collector.observe.example.com":          {},
		"http://collector:4318":                          {},
		"":                                               {},
		"://":                                            {},
	} {
		opened := egressTo(url)
		if tc.port == 0 {
			require.Empty(t, opened, url)
			continue
		}
		require.Equal(t, []networkingv1.NetworkPolicyEgressRule{{
			To: []networkingv1.NetworkPolicyPeer{tc.peer}, Ports: ports(corev1.ProtocolTCP, tc.port),
		}}, opened, url)
	}
}

func TestNetworkPolicyAllowsFormerAddresses(t *testing.T) {
	t.Parallel()
	present := bounded(func(s *Settings) { s.TraceCollectorEndpoint = "http://10.0.0.9:4318" })
	policy, err := NetworkPolicy(function(), present, "http://10.0.0.8:4318", present.PublisherAddress, "https://traces.example.com")
	require.NoError(t, err)
	var reached []string
	for i := range policy.Spec.Egress {
		for _, peer := range policy.Spec.Egress[i].To {
			if peer.IPBlock != nil {
				reached = append(reached, *peer.IPBlock.CIDR)
			}
		}
	}
	require.Equal(t, []string{"169.254.20.10/32", "10.0.0.9/32", "10.0.0.8/32"}, reached)
	require.Len(t, policy.Spec.Egress, 4, "DNS, the eventbridge, and collectors that a policy can name")
}

func TestNoFunctionWidensItsNetworkPolicy(t *testing.T) {
	t.Parallel()
	ours := map[string]string{
		v1alpha2.LabelFunctionName: "other", v1alpha2.LabelManagedBy: "me", v1alpha2.LabelUUID: "other", v1alpha2.LabelResource: v1alpha2.ResourceJob,
		"app.kubernetes.io/component": "gateway",
	}
	hostile := function(everything, func(fn *v1alpha2.Function) { fn.Labels, fn.Spec.Labels = ours, ours })
	plain, err := NetworkPolicy(function(), bounded())
	require.NoError(t, err)
	policy, err := NetworkPolicy(hostile, bounded())
	require.NoError(t, err)
	require.Equal(t, plain, policy, "the policy must not depend on the spec, labels or annotations")

	selected := labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels)
	deployment, err := Deployment(hostile, bounded(), Workload{Code: code(hostile, "")})
	require.NoError(t, err)
	require.True(t, selected.Matches(labels.Set(deployment.Spec.Template.Labels)), "its pods are in it whatever labels they are given")
	require.False(t, selected.Matches(labels.Set(JobLabels(hostile))), "builds are not")
}

func TestPodLabelsAloneAllowNoCaller(t *testing.T) {
	t.Parallel()
	bridge := map[string]string{"app.kubernetes.io/name": "rouse", "app.kubernetes.io/component": "eventbridge"}
	for name, tc := range map[string]struct {
		namespace, pod map[string]string
		port           int32
		from           []networkingv1.NetworkPolicyPeer
		admitted       bool
	}{
		"an eventbridge":                              {in("rouse-system"), bridge, 8080, nil, true},
		"an eventbridge at another port":              {in("rouse-system"), bridge, 9090, nil, false},
		"another pod of the installation":             {in("rouse-system"), map[string]string{"app.kubernetes.io/name": "rouse"}, 8080, nil, false},
		"a tenant's pod that looks like one":          {in("shop"), bridge, 8080, nil, false},
		"a namespace that looks like the release's":   {overlay(in("evil"), map[string]string{"name": "rouse-system"}), bridge, 8080, nil, false},
		"a pod of the Function's namespace":           {in("shop"), SelectorLabels(function()), 8080, nil, false},
		"the same where the installation requires it": {in("shop"), nil, 8080, []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}, true},
		"still no pod of another namespace":           {in("evil"), nil, 8080, []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			applied, err := NetworkPolicy(function(), bounded(func(s *Settings) { s.Network.From = tc.from }))
			require.NoError(t, err)
			policy, err := applyconfig.Of[networkingv1.NetworkPolicy](applied)
			require.NoError(t, err)
			require.Equal(t, tc.admitted, admits(t, policy, tc.namespace, tc.pod, tc.port))
		})
	}
}

// in returns the labels that the API server gives a namespace.
func in(namespace string) map[string]string {
	return map[string]string{corev1.LabelMetadataName: namespace}
}

// admits evaluates a policy as a network that enforces it would.
func admits(t *testing.T, policy *networkingv1.NetworkPolicy, namespace, pod map[string]string, port int32) bool {
	t.Helper()
	matches := func(selector *metav1.LabelSelector, set map[string]string) bool {
		made, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		return made.Matches(labels.Set(set))
	}
	for _, rule := range policy.Spec.Ingress {
		require.NotEmpty(t, rule.From, "everyone")
		require.Len(t, rule.Ports, 1)
		for _, peer := range rule.From {
			same := peer.NamespaceSelector == nil && namespace[corev1.LabelMetadataName] == policy.Namespace
			if rule.Ports[0].Port.IntVal == port && (same || peer.NamespaceSelector != nil && matches(peer.NamespaceSelector, namespace)) &&
				(peer.PodSelector == nil || matches(peer.PodSelector, pod)) {
				return true
			}
		}
	}
	return false
}
