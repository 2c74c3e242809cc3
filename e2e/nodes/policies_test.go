//go:build e2e

package nodes

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/e2e/framework"
)

const echo = "module.exports.main = event => typeof event.data === 'string' && event.data ? event.data : 'hello'"

const (
	api       = "10.202.0.1:443"
	publisher = "rouse-eventbridge.rouse-system.svc.cluster.local:80"
	images    = "registry.kube-system.svc.cluster.local:5000"
	// gateOfHost is the host's end of the cluster's network: it stands for the world outside.
	gateOfHost = "10.200.255.1"
)

func TestNetworkPoliciesLetPassWhatTheyNameAndNothingElse(t *testing.T) {
	cluster, namespaces := start(t, "policies", "stranger")
	ours, theirs := namespaces[0], namespaces[1]
	require.NoError(t, cluster.StartLedger(t.Context(), ours))
	apply(t, cluster, ours, framework.Function{Name: "target", Source: echo})
	apply(t, cluster, ours, framework.Function{Name: "inside", Source: echo})
	apply(t, cluster, theirs, framework.Function{Name: "other", Source: echo})
	function, other := one(t, cluster, ours, ofFunction("inside")), at(one(t, cluster, theirs, ofFunction("other")), 8080)
	target := at(one(t, cluster, ours, ofFunction("target")), 8080)
	world, image := listen(t), function.Spec.Containers[0].Image

	parts := map[string]*corev1.Pod{}
	// What is not to pass is only worth something where there is somebody to answer.
	for name, ports := range map[string][]int{
		"controller": {9090}, "eventbridge": {8080, 9090, 9091}, "scaler": {9000, 9090}, "gateway": {9090, 9091},
		"nats": {4222, 8222}, "registry": {5000, 9090},
	} {
		parts[name] = one(t, cluster, framework.System, component(name))
		for _, port := range ports {
			requireListens(t, cluster, parts[name], port)
		}
	}
	nats, scaler, gateway := at(parts["nats"], 4222), at(parts["scaler"], 9000), at(parts["gateway"], 9091)
	registry, admin := at(parts["registry"], 5000), at(parts["eventbridge"], 9091)
	closed := map[string]bool{nats: false, at(parts["nats"], 8222): false, scaler: false, gateway: false, admin: false}
	for _, name := range []string{"controller", "eventbridge", "scaler", "gateway", "registry"} {
		closed[at(parts[name], 9090)] = false
	}

	requireOpen(t, cluster, function, "a Function", with(closed, map[string]bool{
		target: true, publisher: true, other: false, api: false, images: false, registry: false, world: false,
	}))
	for _, node := range nodes(t, cluster) {
		plain := clientOn(t, cluster, theirs, node.Name, image)
		requireOpen(t, cluster, plain, "a pod of another namespace on "+node.Name, with(closed, map[string]bool{
			publisher: true, api: true, images: true, world: true, registry: true,
			target: false, other: true, // the Functions of its own namespace
		}))
	}
	for name, want := range map[string]map[string]bool{
		"controller":  {nats: true, gateway: true, api: true, world: true, admin: true, target: false, scaler: false},
		"eventbridge": {nats: true, target: true, other: true, api: true, world: false, scaler: false, gateway: false},
		"scaler":      {nats: true, gateway: true, target: true, api: true, world: false, registry: false, admin: false},
		"gateway":     {target: true, other: true, api: true, world: true, admin: true, nats: false, scaler: false, gateway: false},
		"nats":        {target: false, api: false, world: false, registry: false, scaler: false},
		"registry":    {target: false, api: false, world: false, nats: false, scaler: false},
	} {
		requireOpen(t, cluster, standIn(t, cluster, parts[name], image), "who has the labels of "+name, want)
	}
	passesAsItShould(t, cluster, ours)
}

// passesAsItShould plays what Rouse does across these policies: publish, deliver, emit, and wake by a request.
func passesAsItShould(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	fast := framework.Function{Name: "woken", Source: framework.ReportingHandler(""), Asleep: true, Annotations: framework.Fast()}
	apply(t, cluster, namespace, fast)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace,
		framework.Subscription{Name: "woken", Namespace: namespace, Type: "policies.woken.v1", Sink: "woken"}.YAML()))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "woken"))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "woken", 0, 90*time.Second))
	require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: "one", Type: "policies.woken.v1", Data: map[string]string{"key": "one"}}))
	_, err := cluster.AwaitLedger(t.Context(), namespace, []string{"one"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "woken", 0, 90*time.Second))
	require.NoError(t, cluster.AwaitNoPods(t.Context(), namespace, "woken", time.Minute))
	caller, err := cluster.StartCaller(t.Context(), namespace)
	require.NoError(t, err)
	answers, err := caller.Do(t.Context(), framework.Call{URL: "http://woken/"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answers[0].Status, "%+v", answers[0])
	require.Positive(t, answers[0].Waited, "a gateway held it")
	t.Logf("an event and a request woke a sleeping Function; the request waited %d ms", answers[0].Waited)
}
