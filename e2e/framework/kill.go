package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KillPod ends the first container of a pod with SIGKILL, as a crash would: no drain, no goodbye. On the local
// cluster the container's process is killed where it is; elsewhere the pod is deleted without a grace period.
func (c *Cluster) KillPod(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) > 0 {
		err := killContainer(pod.Status.ContainerStatuses[0].ContainerID)
		if !errors.Is(err, errNotHere) {
			return err
		}
	}
	if err := c.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

var errNotHere = errors.New("the container does not run on this machine")

// killContainer kills the main process of a container, named as the kubelet names it.
func killContainer(id string) error {
	_, id, _ = strings.Cut(id, "://")
	pid := processOf(id)
	if pid <= 1 {
		return errNotHere
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// processOf finds the main process of a container by its cgroup; 0 when the container runs elsewhere.
func processOf(containerID string) int {
	if containerID == "" {
		return 0
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0
	}
	for _, path := range groups {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), containerID) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			return pid
		}
	}
	return 0
}

// PodsOf lists the running pods of one of Rouse's components: controller, eventbridge, scaler or nats.
func (c *Cluster) PodsOf(ctx context.Context, component string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(System), componentLabel(component))
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", component, err)
	}
	running := pods.Items[:0]
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp.IsZero() && Ready(&pod) {
			running = append(running, pod)
		}
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("no running pod of %s in %s", component, System)
	}
	return running, nil
}

func componentLabel(component string) client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/component": component}
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
