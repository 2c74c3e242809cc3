//go:build e2e

package nodes

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// elsewhereWithin is the timeout for Kubernetes to reschedule pods: it evicts the pods of an unreachable node after
// five minutes.
const elsewhereWithin = 8 * time.Minute

// victimOf returns a further node with a pod of the Function that is awake, other than that of an earlier test:
// preferably the node of the leading controller, which the others then have to replace.
func victimOf(t *testing.T, cluster *framework.Cluster, namespace, before string) string {
	t.Helper()
	var found []string
	for _, pod := range pods(t, cluster, namespace, ofFunction("awake")) {
		if pod.Spec.NodeName != firstNode && pod.Spec.NodeName != before {
			found = append(found, pod.Spec.NodeName)
		}
	}
	require.NotEmpty(t, found, "no pod is on a further node")
	if leads := leader(t, cluster); slices.Contains(found, leads) {
		return leads
	}
	return found[0]
}

// leader returns the node of the leading controller.
func leader(t *testing.T, cluster *framework.Cluster) string {
	t.Helper()
	leases := &coordinationv1.LeaseList{}
	require.NoError(t, cluster.List(t.Context(), leases, client.InNamespace(framework.System)))
	for _, pod := range pods(t, cluster, framework.System, component("controller")) {
		for _, lease := range leases.Items {
			if holder := lease.Spec.HolderIdentity; holder != nil && strings.HasPrefix(*holder, pod.Name+"_") {
				return pod.Spec.NodeName
			}
		}
	}
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

// awaitMoved waits until the Functions that are awake have all their pods ready on other nodes.
func awaitMoved(t *testing.T, cluster *framework.Cluster, namespace, from string) {
	t.Helper()
	for _, name := range []string{"awake", "steady"} {
		require.NoError(t, framework.Await(t.Context(), elsewhereWithin, name+" elsewhere", func(context.Context) (bool, error) {
			return elsewhere(pods(t, cluster, namespace, ofFunction(name)), from) == awake, nil
		}))
	}
}

func awaitComponents(t *testing.T, cluster *framework.Cluster, from string) {
	t.Helper()
	for _, name := range []string{"eventbridge", "gateway", "scaler"} {
		require.NoError(t, framework.Await(t.Context(), elsewhereWithin, name+" elsewhere", func(context.Context) (bool, error) {
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

// load runs while nodes fail: events for a Function with three pods and for a sleeping one, requests that wake a third
// Function, and requests to a fourth, which has three pods.
type load struct {
	cluster   *framework.Cluster
	caller    *framework.Caller
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

// awake is the number of pods of the Functions that never sleep.
const awake = 3

// begin starts the load. The ledger and the callers are on the first node, which does not fail.
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
		{Name: "awake", Source: handler, Replicas: awake},
		{Name: "sleepy", Source: handler, Asleep: true, Max: 3, Annotations: framework.Fast()},
		{Name: "called", Source: echo, Asleep: true, Annotations: framework.Fast()},
		{Name: "steady", Source: echo, Replicas: awake},
	} {
		apply(t, cluster, namespace, function)
	}
	made := &load{cluster: cluster, caller: caller, namespace: namespace, keys: map[string][]string{}}
	for _, name := range []string{"awake", "sleepy"} {
		subscription := framework.Subscription{Name: name, Namespace: namespace, Type: "nodes." + name + ".v1", Sink: name}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, subscription.YAML()))
		require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, name))
	}
	require.NoError(t, caller.Steady(t.Context(), framework.Call{URL: "http://steady/"}, "steady", 300))
	ctx, cancel := context.WithCancel(t.Context())
	made.stop = cancel
	t.Cleanup(made.end)
	made.running.Go(func() { made.publish(ctx, t, "awake", 200*time.Millisecond, 1) })
	made.running.Go(func() { made.publish(ctx, t, "sleepy", 20*time.Second, 20) })
	made.running.Go(func() { made.wake(ctx) })
	made.awaitWakes(t, 2)
	return made
}

// awaitWakes waits for the given number of further responses to requests that wake: the load has to succeed before and
// after a failure.
func (l *load) awaitWakes(t *testing.T, more int) {
	t.Helper()
	answered := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.called)
	}
	before := answered()
	require.NoError(t, framework.Await(t.Context(), 5*time.Minute, "requests that wake", func(context.Context) (bool, error) {
		return answered() >= before+more, nil
	}))
}

func (l *load) end() {
	l.stop()
	l.running.Wait()
}

// publish stores the given number of events each period. A publisher retries an event after an error.
func (l *load) publish(ctx context.Context, t *testing.T, function string, period time.Duration, events int) {
	t.Helper()
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

// wake repeatedly sends requests to a Function that sleeps in between. A request may fail while nodes fail, since it is
// unknown whether it may be repeated.
func (l *load) wake(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		answers, err := l.caller.Do(context.WithoutCancel(ctx),
			framework.Call{URL: "http://called/", Method: http.MethodPost, Body: strconv.Itoa(n), Timeout: 60000})
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
