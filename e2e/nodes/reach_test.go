//go:build e2e

package nodes

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// requireOpen dials until all is as wanted: a new pod's address becomes known within a moment. What is refused has to stay so.
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

// one is a pod that is ready, of those with a label.
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

// with joins what is wanted of several targets.
func with(all ...map[string]bool) map[string]bool {
	joined := map[string]bool{}
	for _, some := range all {
		maps.Copy(joined, some)
	}
	return joined
}

// clientOn is a pod on a node that is nobody's Function.
func clientOn(t *testing.T, cluster *framework.Cluster, namespace, node, image string) *corev1.Pod {
	t.Helper()
	return runs(t, cluster, metav1.ObjectMeta{Namespace: namespace, Name: "client-" + node}, node, image)
}

// standIn is a pod with the labels by which policies know a part of Rouse, whose own image has nothing to call others with. It is never
// ready, so that no Service leads to it.
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

// runs makes a pod that waits, on a node or on any, until it runs.
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
