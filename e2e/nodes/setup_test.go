//go:build e2e

package nodes

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// firstNode has the control plane and, in this cluster, DNS and KEDA.
const firstNode = "rouse"

func start(t *testing.T, names ...string) (*framework.Cluster, []string) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(nodes(t, cluster)), 3, `one node shows nothing here: run "make e2e-nodes"`)
	var namespaces []string
	for _, name := range names {
		namespace, err := cluster.CreateNamespace(t.Context(), name)
		require.NoError(t, err)
		namespaces = append(namespaces, namespace)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
		defer cancel()
		for _, namespace := range namespaces {
			if t.Failed() {
				cluster.Dump(ctx, os.Stdout, namespace)
			}
			require.NoError(t, cluster.DeleteNamespace(ctx, namespace))
		}
	})
	return cluster, namespaces
}

func nodes(t *testing.T, cluster *framework.Cluster) []corev1.Node {
	t.Helper()
	list := &corev1.NodeList{}
	require.NoError(t, cluster.List(t.Context(), list))
	return list.Items
}

// pods are those with a label that are not on their way out.
func pods(t *testing.T, cluster *framework.Cluster, namespace string, labels client.MatchingLabels) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), list, client.InNamespace(namespace), labels))
	var all []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp.IsZero() {
			all = append(all, pod)
		}
	}
	return all
}

func component(name string) client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/component": name}
}

func ofFunction(name string) client.MatchingLabels {
	return client.MatchingLabels{"serverless.kyma-project.io/function-name": name}
}

// kubectl and the cluster's own program do what a person would.
func kubectl(t *testing.T, args ...string) {
	t.Helper()
	run(t, "kubectl", args...)
}

func cable(t *testing.T, does, node string) {
	t.Helper()
	run(t, "go", "run", "-C", "../cluster", ".", does, node)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

// apply makes a Function and waits until it runs.
func apply(t *testing.T, cluster *framework.Cluster, namespace string, function framework.Function) {
	t.Helper()
	function.Runtime = "nodejs22"
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, function.Name, "Running", "True", 2*time.Minute))
}

// dialer tries to connect to all addresses at once, and says which let it.
const dialer = `
const net = require('net')
const targets = JSON.parse(process.argv[1])
const dial = target => new Promise(resolve => {
  const [, host, port] = target.match(/^(.*):(\d+)$/)
  const socket = net.connect({ host, port: Number(port), timeout: 4000 })
  const end = open => { socket.destroy(); resolve([target, open]) }
  socket.on('connect', () => end(true)).on('timeout', () => end(false)).on('error', () => end(false))
})
Promise.all(targets.map(dial)).then(all => console.log(JSON.stringify(Object.fromEntries(all))))
`

func dial(t *testing.T, cluster *framework.Cluster, from *corev1.Pod, targets []string) map[string]bool {
	t.Helper()
	wanted, err := json.Marshal(targets)
	require.NoError(t, err)
	out, err := cluster.Exec(t.Context(), from.Namespace, from.Name, from.Spec.Containers[0].Name, nil, "node", "-e", dialer, string(wanted))
	require.NoError(t, err)
	var open map[string]bool
	require.NoError(t, json.Unmarshal([]byte(out), &open), out)
	return open
}

// gap is the longest time between two moments (Unix milliseconds) that follow each other.
func gap(moments []float64) time.Duration {
	slices.Sort(moments)
	longest := 0.0
	for i := 1; i < len(moments); i++ {
		longest = max(longest, moments[i]-moments[i-1])
	}
	return time.Duration(longest * float64(time.Millisecond))
}
