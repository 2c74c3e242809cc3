//go:build e2e

package nodes

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// elsewhereWithin is how long Kubernetes may take to have pods elsewhere: after five minutes it gives up those of a node that it cannot ask.
const elsewhereWithin = 8 * time.Minute

// victimOf is a further node with a pod of the Function that is awake, but not the one that an earlier test took: that of the controller
// that leads, where it can be, since the others then have to do without one.
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

// leader is the node of the controller that leads.
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
