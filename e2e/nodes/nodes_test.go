//go:build e2e

package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// cutOff is the node that was cut off: another one is drained.
var cutOff string

func TestNothingIsLostWhileANodeIsCutOff(t *testing.T) {
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

func TestNothingIsLostWhileANodeIsDrained(t *testing.T) {
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
