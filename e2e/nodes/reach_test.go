//go:build e2e

package nodes

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const echo = "module.exports.main = event => typeof event.data === 'string' && event.data ? event.data : 'hello'"

const (
	api       = "10.202.0.1:443"
	publisher = "rouse-eventbridge.rouse-system.svc.cluster.local:80"
	images    = "registry.kube-system.svc.cluster.local:5000"
	// gateOfHost is the host's end of the cluster's network: it represents the external world.
	gateOfHost = "10.200.255.1"
)

func TestNetworkPoliciesAllowOnlyTheirPeers(t *testing.T) {
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
	// A blocked connection proves something only if a server listens.
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

// passesAsItShould exercises Rouse across these policies: publish, deliver, emit, and wake by a request.
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

// requireOpen dials until the results are as expected: policies learn a new pod's address within a moment. Blocked
// connections have to stay blocked.
func requireOpen(t *testing.T, cluster *framework.Cluster, from *corev1.Pod, who string, want map[string]bool) {
	t.Helper()
	targets := slices.Sorted(maps.Keys(want))
	var got map[string]bool
	err := framework.Await(t.Context(), 30*time.Second, who+" to be let and refused", func(context.Context) (bool, error) {
		got = dial(t, cluster, from, targets)
		return maps.Equal(got, want), nil
	})
	require.NoError(t, err, "%s: got %v, want %v", who, got, want)
	require.Equal(t, want, dial(t, cluster, from, targets), who)
	count("policies", len(want))
	open := 0
	for _, is := range want {
		if is {
			open++
		}
	}
	t.Logf("%s (on %s): %d of %d targets open, as they should", who, from.Spec.NodeName, open, len(want))
}

func requireListens(t *testing.T, cluster *framework.Cluster, pod *corev1.Pod, port int) {
	t.Helper()
	local, err := cluster.Forward(t.Context(), pod, port)
	require.NoError(t, err)
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", local))
	require.NoError(t, err, "%s does not listen at %d", pod.Name, port)
	require.NoError(t, conn.Close())
}

// listen opens a port outside of the cluster.
func listen(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", gateOfHost+":0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

func at(pod *corev1.Pod, port int) string { return fmt.Sprintf("%s:%d", pod.Status.PodIP, port) }

// one returns a ready pod with a label.
func one(t *testing.T, cluster *framework.Cluster, namespace string, labels client.MatchingLabels) *corev1.Pod {
	t.Helper()
	for _, pod := range pods(t, cluster, namespace, labels) {
		if framework.Ready(&pod) {
			return &pod
		}
	}
	require.Fail(t, "no pod is ready", "%s %v", namespace, labels)
	return nil
}

// with merges the expected results of several targets.
func with(all ...map[string]bool) map[string]bool {
	joined := map[string]bool{}
	for _, some := range all {
		maps.Copy(joined, some)
	}
	return joined
}

// clientOn runs a pod on a node that belongs to no Function.
func clientOn(t *testing.T, cluster *framework.Cluster, namespace, node, image string) *corev1.Pod {
	t.Helper()
	return runs(t, cluster, metav1.ObjectMeta{Namespace: namespace, Name: "client-" + node}, node, image)
}

// standIn runs a pod with the labels by which policies select a part of Rouse, whose own image contains no client. It
// is never ready, so that no Service routes to it.
func standIn(t *testing.T, cluster *framework.Cluster, of *corev1.Pod, image string) *corev1.Pod {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: of.Namespace, GenerateName: "stand-in-", Labels: map[string]string{}}
	for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"} {
		meta.Labels[label] = of.Labels[label]
	}
	pod := runs(t, cluster, meta, "", image)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), pod)) })
	return pod
}

// runs creates an idle pod, on a node or on any, and waits until it runs.
func runs(t *testing.T, cluster *framework.Cluster, meta metav1.ObjectMeta, node, image string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64(0)), AutomountServiceAccountToken: new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "client", Image: image, Command: []string{"node", "-e", "setInterval(() => {}, 1 << 30)"},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	require.NoError(t, cluster.Create(t.Context(), pod))
	require.NoError(t, framework.Await(t.Context(), time.Minute, pod.Name+" to run", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "", err
	}))
	return pod
}
