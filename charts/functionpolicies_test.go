package charts

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/activation"
)

var boundedFunctions = values{"functions.networkPolicies.enabled=true"}

// rulesOf returns the controller's rules for the NetworkPolicies of Functions, or nil.
func rulesOf(t *testing.T, all objects) *resources.NetworkRules {
	t.Helper()
	for _, arg := range argsOf(t, all, "rouse-controller") {
		if text, ok := strings.CutPrefix(arg, "--function-network-policy="); ok {
			rules := &resources.NetworkRules{}
			require.NoError(t, json.Unmarshal([]byte(text), rules))
			return rules
		}
	}
	return nil
}

func verbsOn(role *rbacv1.ClusterRole, resource string) []string {
	var verbs []string
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, resource) {
			verbs = append(verbs, rule.Verbs...)
		}
	}
	return verbs
}

func TestFunctionsHaveNetworkPoliciesOnlyOnRequest(t *testing.T) {
	t.Parallel()
	off, on := render(t, nil), render(t, boundedFunctions)
	require.Nil(t, rulesOf(t, off))
	require.Empty(t, verbsOn(named[*rbacv1.ClusterRole](t, off, "rouse-controller"), "networkpolicies"), "nor has the controller rights on any")
	require.Equal(t, []string{"get", "list", "watch", "create", "patch", "delete"},
		verbsOn(named[*rbacv1.ClusterRole](t, on, "rouse-controller"), "networkpolicies"))
	require.Equal(t, of[*networkingv1.NetworkPolicy](off)[0].Name, of[*networkingv1.NetworkPolicy](on)[0].Name)
	require.Len(t, of[*networkingv1.NetworkPolicy](on), len(of[*networkingv1.NetworkPolicy](off)), "the controller creates the policies of Functions")
}

func TestRulesForFunctionsSelectThePodsOfTheRelease(t *testing.T) {
	t.Parallel()
	all := render(t, slices.Concat(boundedFunctions, values{
		"functions.networkPolicies.from[0].podSelector.matchLabels.calls=functions",
		"functions.networkPolicies.egress[0].to[0].ipBlock.cidr=10.1.0.0/16", "functions.networkPolicies.egress[0].ports[0].port=5432",
		"networkPolicies.dnsPorts={5353}",
	}))
	rules := rulesOf(t, all)
	require.Equal(t, []int32{5353}, rules.DNSPorts)
	require.Len(t, rules.DNSTo, 2, "the cluster's own, and not any address")
	require.Equal(t, "functions", rules.From[0].PodSelector.MatchLabels["calls"])
	require.Equal(t, "10.1.0.0/16", rules.Egress[0].To[0].IPBlock.CIDR)
	require.Equal(t, 5432, rules.Egress[0].Ports[0].Port.IntValue())
	require.Contains(t, argsOf(t, all, "rouse-controller"), "--publisher-address="+rules.Publisher.Address)

	bridges := rules.Publisher.To[0]
	for _, w := range workloads(all) {
		for _, port := range w.Pod.Spec.Containers[0].Ports {
			if w.component() == "eventbridge" && port.Name == "http" {
				require.Equal(t, []int32{port.ContainerPort}, rules.Publisher.Ports)
			}
		}
		require.Equal(t, w.component() == "eventbridge", selects(t, bridges.PodSelector, w.Pod.Labels), w.GetName())
		require.Equal(t, slices.Contains([]string{"eventbridge", "gateway", "scaler"}, w.component()),
			selects(t, rules.Callers[0].PodSelector, w.Pod.Labels), w.GetName())
	}
	for _, peer := range []networkingv1.NetworkPolicyPeer{bridges, rules.Callers[0]} {
		require.Equal(t, map[string]string{"kubernetes.io/metadata.name": namespace}, peer.NamespaceSelector.MatchLabels)
	}
	require.Empty(t, rulesOf(t, render(t, append(boundedFunctions, "functions.networkPolicies.dnsTo=null"))).DNSTo)
}

func selects(t *testing.T, selector *metav1.LabelSelector, pod map[string]string) bool {
	t.Helper()
	made, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return made.Matches(labels.Set(pod))
}

// Otherwise a client that a Function's NetworkPolicy blocks could call it through a gateway.
func TestGatewaysDoNotBypassTheNetworkPoliciesOfFunctions(t *testing.T) {
	t.Parallel()
	callers := func(set ...string) []networkingv1.NetworkPolicyPeer {
		all := render(t, append(slices.Clone(boundedFunctions), set...))
		rule := named[*networkingv1.NetworkPolicy](t, all, "rouse-gateway").Spec.Ingress[0]
		require.Equal(t, activation.FirstPort, rule.Ports[0].Port.IntValue())
		own := rule.From[0]
		require.Nil(t, own.NamespaceSelector, "only of the release's namespace")
		for _, w := range workloads(all) {
			require.Equal(t, slices.Contains([]string{"controller", "eventbridge"}, w.component()),
				selects(t, own.PodSelector, w.Pod.Labels), w.GetName())
		}
		return rule.From[1:]
	}
	require.Empty(t, callers())
	const peer = "functions.networkPolicies.from[0]."
	selected := callers(peer + "namespaceSelector.matchLabels.team=a")
	require.Equal(t, map[string]string{"team": "a"}, selected[0].NamespaceSelector.MatchLabels)
	require.Nil(t, selected[0].PodSelector)
	require.Equal(t, "10.0.0.0/8", callers(peer + "ipBlock.cidr=10.0.0.0/8")[0].IPBlock.CIDR)

	own := callers(peer + "podSelector.matchLabels.calls=functions")
	require.Equal(t, &metav1.LabelSelector{}, own[0].NamespaceSelector, "it is not of the Function's namespace, so it takes them of all")
	require.Equal(t, map[string]string{"calls": "functions"}, own[0].PodSelector.MatchLabels)
}

func TestAReleaseThatSwitchesNetworkPoliciesOffMayDeleteThem(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	run := helmOn(t, env.Config)
	verbs := func() []string {
		role := &rbacv1.ClusterRole{}
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "rouse-controller"}, role))
		return verbsOn(role, "networkpolicies")
	}
	run("install", "rouse", chart, "--take-ownership", "--set", boundedFunctions[0])
	defer run("uninstall", "rouse", "--no-hooks") // without a kubelet no Job completes
	require.Contains(t, verbs(), "create")
	run("upgrade", "rouse", chart, "--set", "functions.networkPolicies.enabled=false")
	require.Equal(t, []string{"list", "delete"}, verbs())
	run("upgrade", "rouse", chart, "--reuse-values")
	require.Empty(t, verbs(), "after the removal it must have no additional permissions")
}
