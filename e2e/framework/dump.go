package framework

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const dumpedLogLines = 60

// Dump writes what one needs to understand a failed feature: the objects of its namespace, its events, and the
// ends of the logs of its pods and of Rouse's own.
func (c *Cluster) Dump(ctx context.Context, out io.Writer, namespace string) {
	for _, kind := range []schema.GroupVersionKind{
		FunctionGVK, SubscriptionGVK, APIRuleGVK, HTTPRouteGVK,
		{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "batch", Version: "v1", Kind: "Job"},
	} {
		c.dumpStatus(ctx, out, namespace, kind)
	}
	c.dumpEvents(ctx, out, namespace)
	for _, ns := range []string{namespace, System} {
		c.dumpPods(ctx, out, ns)
	}
}

func (c *Cluster) dumpStatus(ctx context.Context, out io.Writer, namespace string, kind schema.GroupVersionKind) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		_, _ = fmt.Fprintf(out, "--- %s: %v\n", kind.Kind, err)
		return
	}
	for _, item := range list.Items {
		status, err := yaml.Marshal(item.Object["status"])
		_, _ = fmt.Fprintf(out, "--- %s %s (error: %v)\n%s", kind.Kind, item.GetName(), err, status)
	}
}

func (c *Cluster) dumpEvents(ctx context.Context, out io.Writer, namespace string) {
	events := &corev1.EventList{}
	if err := c.List(ctx, events, client.InNamespace(namespace)); err != nil {
		_, _ = fmt.Fprintf(out, "--- events: %v\n", err)
		return
	}
	_, _ = fmt.Fprintf(out, "--- events of %s\n", namespace)
	for _, e := range events.Items {
		_, _ = fmt.Fprintf(out, "%s %s %s/%s %s: %s\n", e.LastTimestamp.UTC().Format("15:04:05"), e.Type,
			e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

func (c *Cluster) dumpPods(ctx context.Context, out io.Writer, namespace string) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		_, _ = fmt.Fprintf(out, "--- pods of %s: %v\n", namespace, err)
		return
	}
	for _, pod := range pods.Items {
		_, _ = fmt.Fprintf(out, "--- pod %s/%s %s\n", namespace, pod.Name, pod.Status.Phase)
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			text, err := c.Logs(ctx, namespace, pod.Name, container.Name, dumpedLogLines)
			_, _ = fmt.Fprintf(out, "%s: %s (error: %v)\n", container.Name, strings.TrimRight(text, "\n"), err)
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if ended := status.State.Terminated; ended != nil {
				_, _ = fmt.Fprintf(out, "%s ended with %d: %s\n", status.Name, ended.ExitCode, ended.Message)
			} else if waiting := status.State.Waiting; waiting != nil {
				_, _ = fmt.Fprintf(out, "%s waits: %s: %s\n", status.Name, waiting.Reason, waiting.Message)
			}
		}
	}
}

// Logs reads the last lines of a container's log; 0 lines reads all of it.
func (c *Cluster) Logs(ctx context.Context, namespace, pod, container string, lines int64) (string, error) {
	options := &corev1.PodLogOptions{Container: container}
	if lines > 0 {
		options.TailLines = new(lines)
	}
	text, err := c.Kube.CoreV1().Pods(namespace).GetLogs(pod, options).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read log of %s/%s: %w", namespace, pod, err)
	}
	return string(text), nil
}
