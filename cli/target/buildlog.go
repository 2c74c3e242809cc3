package target

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
)

// maxBuildLog bounds what is shown of the log of a container.
const maxBuildLog = 8 << 20

// BuildLog calls handle with the lines of a Function's builds as they come, until ctx ends. It leaves out builds that had ended before.
func (o *Objects) BuildLog(ctx context.Context, namespace, name string, handle func(Line)) error {
	return o.builds(ctx, namespace, name, false, handle)
}

// BuildLogs is BuildLog with the builds that had ended before, whose pods are kept for a while.
func (o *Objects) BuildLogs(ctx context.Context, namespace, name string, handle func(Line)) error {
	return o.builds(ctx, namespace, name, true, handle)
}

func (o *Objects) builds(ctx context.Context, namespace, name string, past bool, handle func(Line)) error {
	b := &buildLog{
		follower: follower{cluster: o.cluster, namespace: namespace, handle: handle, options: LogOptions{Tail: -1, Follow: true}},
		done:     map[string]bool{},
	}
	selector := v1alpha2.LabelFunctionName + "=" + name + "," + v1alpha2.LabelResource + "=" + v1alpha2.ResourceJob
	ticker := time.NewTicker(join)
	defer ticker.Stop()
	for first := !past; ; first = false {
		pods, err := o.cluster.pods(ctx, namespace, selector)
		if err != nil {
			return err
		}
		slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		for i := range pods {
			if err := b.read(ctx, &pods[i], name, first); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// buildLog reads the logs of builds, one container after the other, as they run.
type buildLog struct {
	follower

	done map[string]bool // pod/container
}

// read reads the logs of a pod's containers that have started. Those that ended before the first look are left out.
func (b *buildLog) read(ctx context.Context, pod *corev1.Pod, function string, first bool) error {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		id := pod.Name + "/" + status.Name
		if b.done[id] || status.State.Waiting != nil || status.State == (corev1.ContainerState{}) {
			continue
		}
		b.done[id] = true
		if ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; first && ended {
			continue
		}
		err := b.container(ctx, pod.Name, status.Name, function)
		switch {
		case errors.Is(err, errNotStarted):
			delete(b.done, id)
		case exit.CodeOf(err) == exit.NotFound: // the pod is gone
		case err != nil:
			return err
		}
	}
	return nil
}

// container reads the log of a container until it ends.
func (b *buildLog) container(ctx context.Context, pod, container, function string) error {
	response, err := b.open(ctx, pod, url.Values{"container": {container}, "timestamps": {"true"}, "follow": {"true"}})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return readLines(ctx, pod, io.LimitReader(response.Body, maxBuildLog), 0, func(text string) {
		line := b.line(pod, text)
		line.Function, line.Replica, line.Stream = function, container, "build"
		b.handle(line)
	})
}
