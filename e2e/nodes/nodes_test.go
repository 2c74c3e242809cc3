//go:build e2e

package nodes

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// load is what goes on while nodes go: events for a Function with two pods and for one that sleeps, and requests that wake a third.
type load struct {
	cluster   *framework.Cluster
	namespace string
	stop      context.CancelFunc
	running   sync.WaitGroup

	mu     sync.Mutex
	keys   map[string][]string // published, by Function
	called []call
}

type call struct {
	at     time.Time
	took   time.Duration
	failed string
}

func TestNothingIsLostWhileANodeIsCutOff(t *testing.T) {
	cluster, namespaces := start(t, "cut")
	namespace := namespaces[0]
	running := begin(t, cluster, namespace)
	victim := victimOf(t, cluster, namespace)
	before := on(t, cluster, victim)
	t.Logf("%s is cut off; on it: %v", victim, before)
	t.Cleanup(func() { cable(t, "mend", victim) })
	cable(t, "cut", victim)
	cutAt := time.Now()

	awaitNode(t, cluster, victim, corev1.ConditionUnknown)
	t.Logf("after %s Kubernetes knows that it is away, and its pods are no endpoints any more", since(cutAt))
	awaitMoved(t, cluster, namespace, victim, 7*time.Minute)
	t.Logf("after %s as many pods of the Function run elsewhere", since(cutAt))
	awaitComponents(t, cluster, victim, 7*time.Minute)
	t.Logf("after %s eventbridges, gateways and scalers are whole elsewhere", since(cutAt))

	mendedAt := time.Now()
	cable(t, "mend", victim)
	awaitNode(t, cluster, victim, corev1.ConditionTrue)
	t.Logf("%s after its cable is in again the node is ready", since(mendedAt))
	running.settle(t, cutAt)
}

func TestNothingIsLostWhileANodeIsDrained(t *testing.T) {
	cluster, namespaces := start(t, "drained")
	namespace := namespaces[0]
	running := begin(t, cluster, namespace)
	victim := victimOf(t, cluster, namespace)
	t.Logf("%s is drained; on it: %v", victim, on(t, cluster, victim))
	t.Cleanup(func() { kubectl(t, "uncordon", victim) })
	drainedAt := time.Now()
	kubectl(t, "drain", victim, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=5m")
	t.Logf("drained after %s", since(drainedAt))
	awaitMoved(t, cluster, namespace, victim, 3*time.Minute)
	t.Logf("after %s as many pods of the Function run elsewhere", since(drainedAt))
	kubectl(t, "uncordon", victim)
	running.settle(t, drainedAt)
}

// begin starts the load. What counts and what calls is on the first node, which stays.
func begin(t *testing.T, cluster *framework.Cluster, namespace string) *load {
	t.Helper()
	cordonFurther(t, cluster, "cordon")
	t.Cleanup(func() { cordonFurther(t, cluster, "uncordon") })
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	caller, err := cluster.StartCaller(t.Context(), namespace)
	require.NoError(t, err)
	cordonFurther(t, cluster, "uncordon")

	handler := framework.ReportingHandler("await new Promise(r => setTimeout(r, 50))")
	for _, function := range []framework.Function{
		{Name: "awake", Source: handler, Replicas: 3},
		{Name: "sleepy", Source: handler, Asleep: true, Max: 3, Annotations: framework.Fast()},
		{Name: "called", Source: echo, Asleep: true, Annotations: framework.Fast()},
	} {
		apply(t, cluster, namespace, function)
	}
	made := &load{cluster: cluster, namespace: namespace, keys: map[string][]string{}}
	for _, name := range []string{"awake", "sleepy"} {
		subscription := framework.Subscription{Name: name, Namespace: namespace, Type: "nodes." + name + ".v1", Sink: name}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, subscription.YAML()))
		require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, name))
	}
	ctx, cancel := context.WithCancel(t.Context())
	made.stop = cancel
	t.Cleanup(made.end)
	made.running.Go(func() { made.publish(ctx, t, "awake", 200*time.Millisecond, 1) })
	made.running.Go(func() { made.publish(ctx, t, "sleepy", 20*time.Second, 20) })
	made.running.Go(func() { made.call(ctx, caller) })
	return made
}

func (l *load) end() {
	l.stop()
	l.running.Wait()
}

// publish stores so many events each period. A publisher that is refused, or reaches no bridge, comes again with the same event.
func (l *load) publish(ctx context.Context, t *testing.T, function string, period time.Duration, events int) {
	var stored sync.WaitGroup
	defer stored.Wait()
	slots := make(chan struct{}, 50)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
		}
		for i := range events {
			key := fmt.Sprintf("%s-%d-%d", function, n, i)
			l.mu.Lock()
			l.keys[function] = append(l.keys[function], key)
			l.mu.Unlock()
			slots <- struct{}{}
			stored.Go(func() {
				defer func() { <-slots }()
				event := framework.Event{ID: l.namespace + key, Type: "nodes." + function + ".v1", Data: map[string]string{"key": key}}
				if err := l.cluster.Publish(context.WithoutCancel(ctx), event); err != nil {
					t.Errorf("publish: %v", err)
				}
			})
		}
	}
}

// call wakes a Function again and again. A request may fail while nodes go: there is nobody to say whether it may be repeated.
func (l *load) call(ctx context.Context, caller *framework.Caller) {
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		answers, err := caller.Do(context.WithoutCancel(ctx), framework.Call{URL: "http://called/", Method: http.MethodPost, Body: fmt.Sprint(n), Timeout: 60000})
		made := call{at: began, took: time.Since(began)}
		switch {
		case err != nil:
			made.failed = err.Error()
		case answers[0].Status != http.StatusOK:
			made.failed = fmt.Sprintf("%d %s %s", answers[0].Status, answers[0].Error, answers[0].Text)
		}
		l.mu.Lock()
		l.called = append(l.called, made)
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(12 * time.Second): // longer than it stays awake
		}
	}
}

// settle ends the load and counts.
func (l *load) settle(t *testing.T, from time.Time) {
	t.Helper()
	l.end()
	for name, keys := range l.keys {
		entries, err := l.cluster.AwaitLedger(t.Context(), l.namespace, keys, 5*time.Minute)
		if err != nil {
			t.Logf("not all of %s arrived: %v", name, err)
		}
		var balance framework.Balance
		require.NoError(t, framework.Await(t.Context(), 2*time.Minute, "the backlog of "+name+" to be settled", func(ctx context.Context) (bool, error) {
			balance, err = l.cluster.Balance(ctx, l.namespace, name)
			return balance.Pending == 0, err
		}))
		acked, repeated := 0, 0
		for _, key := range keys {
			if entry, ok := entries[key]; ok {
				acked++
				repeated += entry.Count - 1
			}
		}
		lost := len(keys) - acked - int(balance.DeadLetters) - int(balance.Pending)
		t.Logf("%s: published=%d acked=%d deadlettered=%d pending=%d lost=%d duplicates=%d longest pause=%s",
			name, len(keys), acked, balance.DeadLetters, balance.Pending, lost, repeated, longestPause(entries, keys).Round(100*time.Millisecond))
		require.Zero(t, lost)
	}
	failed, slowest := 0, time.Duration(0)
	for _, one := range l.called {
		if one.failed != "" {
			failed++
			t.Logf("a request of %s after the node went failed after %s: %s", one.at.Sub(from).Round(time.Second), one.took.Round(time.Second), one.failed)
		} else {
			slowest = max(slowest, one.took)
		}
	}
	t.Logf("requests that wake: asked=%d failed=%d slowest=%s", len(l.called), failed, slowest.Round(time.Millisecond))
	require.Empty(t, l.called[len(l.called)-1].failed, "the last request, long after")
}

// longestPause is the longest time without any event that was handled.
func longestPause(entries map[string]framework.Entry, keys []string) time.Duration {
	var times []float64
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			times = append(times, entry.At)
		}
	}
	return gap(times)
}

// victimOf is a further node with a pod of the Function that is awake.
func victimOf(t *testing.T, cluster *framework.Cluster, namespace string) string {
	t.Helper()
	for _, pod := range pods(t, cluster, namespace, ofFunction("awake")) {
		if pod.Spec.NodeName != firstNode {
			return pod.Spec.NodeName
		}
	}
	require.Fail(t, "no pod is on a further node")
	return ""
}

// on lists the pods of a node.
func on(t *testing.T, cluster *framework.Cluster, node string) []string {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), list))
	var names []string
	for _, pod := range list.Items {
		if pod.Spec.NodeName == node {
			names = append(names, pod.Name)
		}
	}
	return names
}

func cordonFurther(t *testing.T, cluster *framework.Cluster, does string) {
	t.Helper()
	list := &corev1.NodeList{}
	require.NoError(t, cluster.List(context.WithoutCancel(t.Context()), list))
	for _, node := range list.Items {
		if node.Name != firstNode {
			kubectl(t, does, node.Name)
		}
	}
}

func awaitNode(t *testing.T, cluster *framework.Cluster, name string, want corev1.ConditionStatus) {
	t.Helper()
	require.NoError(t, framework.Await(t.Context(), 3*time.Minute, name+" to be ready: "+string(want), func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		err := cluster.Get(ctx, client.ObjectKey{Name: name}, node)
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == want, err
			}
		}
		return false, err
	}))
}

// awaitMoved waits until the Function that is awake has all its pods ready on other nodes.
func awaitMoved(t *testing.T, cluster *framework.Cluster, namespace, from string, timeout time.Duration) {
	t.Helper()
	require.NoError(t, framework.Await(t.Context(), timeout, "pods elsewhere", func(context.Context) (bool, error) {
		return elsewhere(pods(t, cluster, namespace, ofFunction("awake")), from) == 3, nil
	}))
}

func awaitComponents(t *testing.T, cluster *framework.Cluster, from string, timeout time.Duration) {
	t.Helper()
	for _, name := range []string{"eventbridge", "gateway", "scaler"} {
		require.NoError(t, framework.Await(t.Context(), timeout, name+" elsewhere", func(context.Context) (bool, error) {
			return elsewhere(pods(t, cluster, framework.System, component(name)), from) == 2, nil
		}))
	}
}

func elsewhere(pods []corev1.Pod, from string) int {
	ready := 0
	for _, pod := range pods {
		if pod.Spec.NodeName != from && framework.Ready(&pod) {
			ready++
		}
	}
	return ready
}

func since(at time.Time) time.Duration { return time.Since(at).Round(100 * time.Millisecond) }
