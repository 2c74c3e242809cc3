package framework

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const maxLogLine = 1 << 20

// FollowLogs calls line for every log line of every pod that has the labels, now and later, until ctx ends.
// Calls do not overlap.
func (c *Cluster) FollowLogs(ctx context.Context, namespace string, labels client.MatchingLabels, line func(pod, text string)) error {
	var mu sync.Mutex
	followed := map[types.UID]bool{}
	return c.watchPods(ctx, namespace, labels, func(pod *corev1.Pod) {
		if followed[pod.UID] || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
			return
		}
		followed[pod.UID] = true
		name, container := pod.Name, pod.Spec.Containers[0].Name
		go c.followLog(ctx, namespace, name, container, func(text string) {
			mu.Lock()
			defer mu.Unlock()
			line(name, text)
		})
	})
}

func (c *Cluster) followLog(ctx context.Context, namespace, pod, container string, line func(string)) {
	stream, err := c.Kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Follow: true, TailLines: new(int64(1000)),
	}).Stream(ctx)
	if err != nil {
		return // the pod has gone already
	}
	defer func() { _ = stream.Close() }()
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLogLine)
	for scanner.Scan() {
		line(scanner.Text())
	}
}

// RecordAddresses calls seen once for each pod with the labels, when it has an address, until ctx ends.
func (c *Cluster) RecordAddresses(
	ctx context.Context, namespace string, labels client.MatchingLabels, seen func(pod *corev1.Pod, at time.Time),
) error {
	known := map[types.UID]bool{}
	return c.watchPods(ctx, namespace, labels, func(pod *corev1.Pod) {
		if pod.Status.PodIP != "" && pod.DeletionTimestamp.IsZero() && !known[pod.UID] {
			known[pod.UID] = true
			seen(pod, time.Now())
		}
	})
}

func (c *Cluster) watchPods(ctx context.Context, namespace string, labels client.MatchingLabels, changed func(*corev1.Pod)) error {
	return c.watchEach(ctx, &corev1.PodList{}, func(_ watch.EventType, object runtime.Object) {
		if pod, ok := object.(*corev1.Pod); ok {
			changed(pod)
		}
	}, client.InNamespace(namespace), labels)
}

// watchEach calls changed for every object of a list, now and after each change, until ctx ends.
func (c *Cluster) watchEach(
	ctx context.Context, list client.ObjectList, changed func(watch.EventType, runtime.Object), which ...client.ListOption,
) error {
	watcher, err := c.Watch(ctx, list, which...)
	if err != nil {
		return fmt.Errorf("watch %T: %w", list, err)
	}
	go func() {
		defer watcher.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-watcher.ResultChan():
				if !open {
					return
				}
				changed(event.Type, event.Object)
			}
		}
	}()
	return nil
}

// RecordReady sends the time at which the first pod with the labels is Ready, once, until ctx ends.
func (c *Cluster) RecordReady(ctx context.Context, namespace string, labels client.MatchingLabels, readyAt chan<- time.Time) error {
	sent := false
	return c.watchPods(ctx, namespace, labels, func(pod *corev1.Pod) {
		if !sent && Ready(pod) {
			sent = true
			readyAt <- time.Now()
		}
	})
}
