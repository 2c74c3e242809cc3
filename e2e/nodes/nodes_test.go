//go:build e2e

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// cutOff is the node that was cut off: a different one is drained.
var cutOff string

func TestNoEventIsLostWhileANodeIsCutOff(t *testing.T) {
	cluster, namespaces := start(t, "cut")
	running := begin(t, cluster, namespaces[0])
	victim := victimOf(t, cluster, namespaces[0], "")
	cutOff = victim
	t.Logf("%s is cut off; on it: %v", victim, on(t, cluster, victim))
	t.Cleanup(func() { cable(t, "mend", victim) })
	cable(t, "cut", victim)
	cutAt := time.Now()

	awaitNode(t, cluster, victim, corev1.ConditionUnknown)
	t.Logf("after %s Kubernetes knows that it is away, and its pods are no endpoints any more", since(cutAt))
	awaitMoved(t, cluster, namespaces[0], victim)
	t.Logf("after %s as many pods of the Functions that are awake run elsewhere", since(cutAt))
	awaitComponents(t, cluster, victim)
	t.Logf("after %s eventbridges, gateways and scalers are whole elsewhere", since(cutAt))

	mendedAt := time.Now()
	cable(t, "mend", victim)
	awaitNode(t, cluster, victim, corev1.ConditionTrue)
	t.Logf("%s after its cable is in again the node is ready", since(mendedAt))
	running.awaitWakes(t, 3)
	running.settle(t, cutAt)
}

func TestNoEventIsLostWhileANodeIsDrained(t *testing.T) {
	cluster, namespaces := start(t, "drained")
	running := begin(t, cluster, namespaces[0])
	victim := victimOf(t, cluster, namespaces[0], cutOff)
	t.Logf("%s is drained; on it: %v", victim, on(t, cluster, victim))
	t.Cleanup(func() { kubectl(t, "uncordon", victim) })
	drainedAt := time.Now()
	kubectl(t, "drain", victim, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=5m")
	t.Logf("drained after %s", since(drainedAt))
	awaitMoved(t, cluster, namespaces[0], victim)
	t.Logf("after %s as many pods of the Functions that are awake run elsewhere", since(drainedAt))
	awaitComponents(t, cluster, victim)
	t.Logf("after %s eventbridges, gateways and scalers are whole elsewhere", since(drainedAt))
	kubectl(t, "uncordon", victim)
	running.awaitWakes(t, 3)
	running.settle(t, drainedAt)
}

// settle ends the load and counts.
func (l *load) settle(t *testing.T, from time.Time) {
	t.Helper()
	l.end()
	for _, function := range []string{"awake", "sleepy"} {
		l.settleEvents(t, function)
	}
	l.settleWakes(t, from)
	l.settleSteady(t)
}

// firstNode runs the control plane and, in this cluster, DNS and KEDA.
const firstNode = "rouse"

func start(t *testing.T, names ...string) (*framework.Cluster, []string) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(nodes(t, cluster)), 3, `this test needs several nodes: run "make e2e-nodes"`)
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

// pods returns the pods with a label that are not terminating.
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

// kubectl runs kubectl as a user would.
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

// apply creates a Function and waits until it runs.
func apply(t *testing.T, cluster *framework.Cluster, namespace string, function framework.Function) {
	t.Helper()
	function.Runtime = "nodejs22"
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, function.Name, "Running", "True", 2*time.Minute))
}

// dialer tries to connect to all addresses concurrently, and reports which connections succeed.
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

// gap returns the longest time between two consecutive moments (Unix milliseconds).
func gap(moments []float64) time.Duration {
	slices.Sort(moments)
	longest := 0.0
	for i := 1; i < len(moments); i++ {
		longest = max(longest, moments[i]-moments[i-1])
	}
	return time.Duration(longest * float64(time.Millisecond))
}

// settleEvents waits until each event of a Function is settled, and counts them.
func (l *load) settleEvents(t *testing.T, function string) {
	t.Helper()
	keys := l.keys[function]
	entries, err := l.cluster.AwaitLedger(t.Context(), l.namespace, keys, 5*time.Minute)
	if err != nil {
		t.Logf("not all of %s arrived: %v", function, err)
	}
	var balance framework.Balance
	require.NoError(t, framework.Await(t.Context(), 2*time.Minute, "the backlog of "+function+" to be settled", func(ctx context.Context) (bool, error) {
		balance, err = l.cluster.Balance(ctx, l.namespace, function)
		return balance.Pending == 0, err
	}))
	acked, repeated := 0, 0
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			acked++
			repeated += entry.Count - 1
		}
	}
	lost := len(keys) - acked - int(balance.DeadLetters)
	t.Logf("events for %s: published=%d acked=%d deadlettered=%d lost=%d repeated=%d longest_pause=%s",
		function, len(keys), acked, balance.DeadLetters, lost, repeated, longestPause(entries, keys).Round(100*time.Millisecond))
	count("published", len(keys))
	count("acked", acked)
	count("deadlettered", int(balance.DeadLetters))
	count("lost", lost)
	require.Zero(t, lost)
}

// longestPause returns the longest time without a handled event.
func longestPause(entries map[string]framework.Entry, keys []string) time.Duration {
	var times []float64
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			times = append(times, entry.At)
		}
	}
	return gap(times)
}

func (l *load) settleWakes(t *testing.T, from time.Time) {
	t.Helper()
	failed, slowest := 0, time.Duration(0)
	for _, one := range l.called {
		if one.failed != "" {
			failed++
			t.Logf("a request that wakes, begun %s after the node went, failed after %s: %s",
				one.at.Sub(from).Round(time.Second), one.took.Round(time.Second), one.failed)
		} else {
			slowest = max(slowest, one.took)
		}
	}
	t.Logf("requests that wake: requests=%d failed_requests=%d slowest=%s", len(l.called), failed, slowest.Round(time.Millisecond))
	count("requests", len(l.called))
	count("failed_requests", failed)
	require.Empty(t, l.called[len(l.called)-1].failed, "the last request, long after")
}

// settleSteady ends the steady requests, and checks once more that all Functions respond.
func (l *load) settleSteady(t *testing.T) {
	t.Helper()
	steady, err := l.caller.Pause(t.Context())
	require.NoError(t, err)
	t.Logf("requests to three pods: requests=%d failed_requests=%d", steady.Asked, steady.Failed)
	for _, failure := range steady.Failures {
		t.Log(failure)
	}
	count("requests", steady.Asked)
	count("failed_requests", steady.Failed)
	answers, err := l.caller.Do(t.Context(), framework.Call{URL: "http://steady/", Method: "POST", Body: "after"})
	require.NoError(t, err)
	require.Equal(t, "after", answers[0].Text, "%+v", answers[0])
}

// tally is the content of the last line of "make e2e-nodes", in order.
var tally struct {
	sync.Mutex

	names  []string
	counts map[string]int
}

// count adds to a number in that line.
func count(name string, more int) {
	tally.Lock()
	defer tally.Unlock()
	if tally.counts == nil {
		tally.counts = map[string]int{}
	}
	if !slices.Contains(tally.names, name) {
		tally.names = append(tally.names, name)
	}
	tally.counts[name] += more
}

// TestMain passes the tally to the script that runs these tests, when all of them passed.
func TestMain(m *testing.M) {
	code := m.Run()
	if file := os.Getenv("ROUSE_TALLY"); file != "" && code == 0 {
		code = write(file)
	}
	os.Exit(code)
}

func write(file string) int {
	var words strings.Builder
	for _, name := range tally.names {
		_, _ = fmt.Fprintf(&words, " %s=%d", name, tally.counts[name])
	}
	out, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = out.WriteString(words.String())
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write the tally:", err)
		return 1
	}
	return 0
}
