package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// served returns a resource with the versions that are served.
func served(name, version string, versions ...string) Resource {
	return Resource{Check: checkResources, Name: name, Version: version, Served: known(versions, nil), Required: name == "functions.serverless.kyma-project.io"}
}

func healthyCluster() Cluster {
	return Cluster{
		Name: "the cluster of context dev", Namespace: "orders", RouseNamespace: "rouse-system", Now: noon,
		Server:       known(Server{Version: "v1.36.3", Time: noon}, nil),
		Resources:    []Resource{served("functions.serverless.kyma-project.io", "v1alpha2", "v1alpha2"), served(scaledObjects, "v1alpha1", "v1alpha1")},
		Components:   known([]Component{{Name: "rouse-controller", Kind: "Deployment", Version: "0.1.0", Desired: 1, Ready: 1}}, nil),
		KEDA:         known([]Component{{Name: "keda-operator", Version: "2.21.0", Desired: 1, Ready: 1}}, nil),
		Rights:       known([]Right{{Verb: "list", Resource: "functions", Namespace: "orders", For: "rouse functions", Allowed: true}}, nil),
		Certificates: known([]Certificate{{Name: "Secret rouse-system/tls", Expires: noon.Add(30 * 24 * time.Hour)}}, nil),
		Nodes:        known([]NodeClock{{Name: "one", Renewed: noon.Add(-9 * time.Second)}}, nil),
		Policies: known(Policies{
			Rouse: map[string]string{"kubernetes.io/metadata.name": "rouse-system"}, Functions: map[string]string{"managed-by": "function-controller"},
		}, nil),
		Functions: known([]Function{{Namespace: "orders", Name: "pricing"}}, nil),
		Work:      known([]Work{{Namespace: "orders", Name: "pricing", Consumer: true}}, nil),
	}
}

// waiting returns a pod with a container that waits.
func waiting(reason, message string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "orders", Name: "pricing-1"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "function", Image: "registry/pricing@sha256:1", RestartCount: 1,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}},
	}
}

func TestAClusterIsExamined(t *testing.T) {
	t.Parallel()
	denied := errors.New("you may not list pods in namespace orders: ask for a role with that verb in the cluster of context dev")
	for name, tc := range map[string]struct {
		change func(*Cluster)
		want   string // begins the only finding that is not ok
	}{
		"healthy":        {func(*Cluster) {}, ""},
		"old Kubernetes": {func(c *Cluster) { c.Server.Value.Version = "v1.29.4+k3s1" }, "failure kubernetes: Kubernetes is v1.29.4+k3s1, and Rouse needs 1.30.0"},
		"a clock that is wrong": {
			func(c *Cluster) { c.Now, c.Nodes.Value = noon.Add(-time.Minute), nil },
			"warning clock: this machine's clock and the API server's differ by 1m0s",
		},
		"a clock that is very wrong": {func(c *Cluster) { c.Now = noon.Add(time.Hour) }, "failure clock: this machine's clock and the API server's differ by 1h0m0s: tokens are refused"},
		"Rouse is not installed":     {func(c *Cluster) { c.Resources[0].Served.Value = nil }, "failure crds: functions.serverless.kyma-project.io is not served / install Rouse"},
		"another version":            {func(c *Cluster) { c.Resources[0].Version = "v1" }, "failure crds: functions.serverless.kyma-project.io is served as v1alpha2, and this program needs v1"},
		"no part of Rouse":           {func(c *Cluster) { c.Components.Value = nil }, "failure components: there is no part of Rouse in namespace rouse-system"},
		"a part that is down":        {func(c *Cluster) { c.Components.Value[0].Ready = 0 }, "failure components: rouse-controller has no replica ready, of 1 / kubectl describe deployment rouse-controller -n rouse-system"},
		"a part of fewer replicas":   {func(c *Cluster) { c.Components.Value[0].Desired = 2 }, "warning components: rouse-controller has 1 of 2 replicas ready"},
		"parts of two releases": {
			func(c *Cluster) {
				c.Components.Value = append(c.Components.Value, Component{Name: "rouse-scaler", Version: "0.2.0", Desired: 1, Ready: 1})
			},
			"warning components: the parts of Rouse have 2 different versions",
		},
		"no KEDA":               {func(c *Cluster) { c.Resources[1].Served.Value = nil }, "failure keda: KEDA is not installed: Functions neither sleep nor scale / install KEDA"},
		"metrics instead of it": {func(c *Cluster) { c.Resources[1] = served(externalMetrics, "v1beta1", "v1beta1") }, ""},
		"KEDA without operator": {func(c *Cluster) { c.KEDA.Value = nil }, "failure keda: KEDA's resources are served, and there is no operator"},
		"KEDA is down":          {func(c *Cluster) { c.KEDA.Value[0].Ready = 0 }, "failure keda: keda-operator has no replica ready"},
		"old KEDA":              {func(c *Cluster) { c.KEDA.Value[0].Version = "2.9.1" }, "warning keda: KEDA is 2.9.1, and 2.17.0 is the oldest"},
		"a right is missing":    {func(c *Cluster) { c.Rights.Value[0].Allowed = false }, "warning rights: you may not list functions in namespace orders, which rouse functions needs / ask for a role with list of functions"},
		"a certificate that ends": {
			func(c *Cluster) { c.Certificates.Value[0].Expires = noon.Add(73 * time.Hour) },
			"warning certificates: Secret rouse-system/tls expires in 3 days, on 2026-01-04",
		},
		"a certificate that ended":   {func(c *Cluster) { c.Certificates.Value[0].Expires = noon }, "failure certificates: Secret rouse-system/tls expired on 2026-01-01"},
		"a certificate that is none": {func(c *Cluster) { c.Certificates.Value[0].Problem = "no PEM" }, "warning certificates: Secret rouse-system/tls: no PEM"},
		"a node ahead":               {func(c *Cluster) { c.Nodes.Value[0].Renewed = noon.Add(time.Minute) }, "warning nodes: the clock of node one is 1m0s ahead"},
		"a node without life":        {func(c *Cluster) { c.Nodes.Value[0].Renewed = noon.Add(-time.Hour) }, "warning nodes: node one gave its last sign of life 1h0m0s ago"},
		"an image that is not pulled": {
			func(c *Cluster) {
				c.FunctionPods.Value = []corev1.Pod{waiting("ImagePullBackOff", "Back-off\npulling")}
			},
			"failure images: pod orders/pricing-1 cannot pull registry/pricing@sha256:1: Back-off pulling",
		},
		"a container that ends": {func(c *Cluster) { c.RousePods.Value = []corev1.Pod{waiting("CrashLoopBackOff", "")} }, "failure pods: container function of pod orders/pricing-1 ends again and again / kubectl logs -n orders pricing-1 -c function --previous"},
		"a Secret is missing": {func(c *Cluster) {
			c.FunctionPods.Value = []corev1.Pod{waiting("CreateContainerConfigError", `secret "x" not found`)}
		}, `failure pods: pod orders/pricing-1 cannot start: secret "x" not found`},
		"many restarts": {func(c *Cluster) {
			pod := waiting("", "")
			pod.Status.ContainerStatuses[0].RestartCount = 9
			c.FunctionPods.Value = []corev1.Pod{pod}
		}, "warning pods: container function of pod orders/pricing-1 was restarted 9 times"},
		"no node takes a pod": {func(c *Cluster) {
			c.FunctionPods.Value = []corev1.Pod{{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available",
			}}}}}
		}, "failure pods: no node takes pod /: 0/1 nodes are available"},
		"a Function with a problem": {func(c *Cluster) {
			c.Functions.Value[0].Reason, c.Functions.Value[0].Problem = "JobFailed", "npm failed"
		}, "failure functions: orders/pricing: JobFailed: npm failed"},
		"no registry": {func(c *Cluster) { c.Functions.Value[0].NoRegistry = true }, "warning registry: there is no registry, so the pods of pricing install their packages at each start"},
		"a consumer that stands still": {
			func(c *Cluster) { c.Work.Value[0].Waiting, c.Work.Value[0].Earlier = 3, 3 },
			"warning consumers: 3 events wait for Subscription orders/pricing, and none is delivered",
		},
		"a consumer that moves": {func(c *Cluster) { c.Work.Value[0].Waiting, c.Work.Value[0].Earlier = 3, 4 }, ""},
		"a consumer that is paused": {func(c *Cluster) {
			c.Work.Value[0].Waiting, c.Work.Value[0].Earlier, c.Work.Value[0].Paused = 3, 3, true
		}, ""},
		"dead letters":         {func(c *Cluster) { c.Work.Value[0].DeadLetters = 2 }, "warning deadletters: dead letters: 2 of orders/pricing / rouse dlq list"},
		"what may not be read": {func(c *Cluster) { c.FunctionPods.Err = denied }, "warning pods: not checked: you may not list pods in namespace orders / ask for a role with that verb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := healthyCluster()
			tc.change(&c)
			found := lines(c.Examine(), "")
			if tc.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1, found)
			require.True(t, strings.HasPrefix(found[0], tc.want), found[0])
		})
	}
}

func TestNetworkPoliciesAddUp(t *testing.T) {
	t.Parallel()
	udp, dns := corev1.ProtocolUDP, intstr.FromInt32(dnsPort)
	closed := networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}}
	resolving := networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress:      []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: &dns}}}},
	}}
	admitting := func(namespace string) networkingv1.NetworkPolicy {
		return networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			}}}},
		}}
	}
	ofFunction := admitting("rouse-system")
	ofFunction.Spec.PodSelector.MatchLabels = map[string]string{v1alpha2.LabelFunctionName: "pricing"}
	others := closed
	others.Spec.PodSelector.MatchLabels = map[string]string{"app": "database"}
	for name, tc := range map[string]struct {
		policies []networkingv1.NetworkPolicy
		want     int // failures
	}{
		"none":                         {nil, 0},
		"all is closed":                {[]networkingv1.NetworkPolicy{closed}, 2},
		"of other pods":                {[]networkingv1.NetworkPolicy{others}, 0},
		"closed, but for these":        {[]networkingv1.NetworkPolicy{closed, resolving, admitting("rouse-system")}, 0},
		"closed, but for the Function": {[]networkingv1.NetworkPolicy{closed, resolving, ofFunction}, 0},
		"only DNS is open":             {[]networkingv1.NetworkPolicy{closed, resolving}, 1},
		"open to another namespace":    {[]networkingv1.NetworkPolicy{closed, resolving, admitting("monitoring")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := healthyCluster()
			c.Policies.Value.Policies = tc.policies
			require.Equal(t, tc.want, c.Examine().Failures)
		})
	}
}
