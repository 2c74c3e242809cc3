package framework

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds that features use.
var (
	FunctionGVK     = schema.GroupVersionKind{Group: "serverless.kyma-project.io", Version: "v1alpha2", Kind: "Function"}
	SubscriptionGVK = schema.GroupVersionKind{Group: "eventing.kyma-project.io", Version: "v1alpha2", Kind: "Subscription"}
	ScaledObjectGVK = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
)

// Condition is one condition of an object's status.
type Condition struct {
	Type, Status, Reason, Message string
	Generation                    int64 // of the observed spec
}

// Conditions returns the conditions of an object, by type.
func (c *Cluster) Conditions(
	ctx context.Context, namespace string, kind schema.GroupVersionKind, name string,
) (map[string]Condition, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return conditionsOf(object), nil
}

func conditionsOf(object *unstructured.Unstructured) map[string]Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // other kinds of objects have none
	conditions := make(map[string]Condition, len(list))
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := fields[key].(string); return s }
		generation, _ := fields["observedGeneration"].(int64)
		conditions[text("type")] = Condition{
			Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message"), Generation: generation,
		}
	}
	return conditions
}

// AwaitCondition waits until a condition has the status.
func (c *Cluster) AwaitCondition(
	ctx context.Context, namespace string, kind schema.GroupVersionKind, name, condition, status string, timeout time.Duration,
) error {
	what := fmt.Sprintf("%s %s/%s to be %s=%s", kind.Kind, namespace, name, condition, status)
	return Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		conditions, err := c.Conditions(ctx, namespace, kind, name)
		if err != nil {
			return false, err
		}
		if got := conditions[condition]; got.Status != status {
			return false, fmt.Errorf("is %q (%s): %s", got.Status, got.Reason, got.Message)
		}
		return true, nil
	})
}

// AwaitSubscribed waits until a Subscription is ready.
func (c *Cluster) AwaitSubscribed(ctx context.Context, namespace, name string) error {
	return c.AwaitCondition(ctx, namespace, SubscriptionGVK, name, "Subscription active", "True", time.Minute)
}

// AwaitPollingInterval waits until a Function's ScaledObject has the polling interval.
func (c *Cluster) AwaitPollingInterval(ctx context.Context, namespace, name string, seconds int64) error {
	return Await(ctx, time.Minute, fmt.Sprintf("a polling interval of %d s", seconds), func(ctx context.Context) (bool, error) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(ScaledObjectGVK)
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return false, err
		}
		got, _, err := unstructured.NestedInt64(object.Object, "spec", "pollingInterval")
		return got == seconds, err
	})
}

// Without scales a Deployment to zero while a function runs, and restores it in any case.
func (c *Cluster) Without(ctx context.Context, namespace, name string, run func() error) (err error) {
	before, err := c.scaleTo(ctx, namespace, name, 0)
	if err != nil {
		return err
	}
	defer func() {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		if _, scaled := c.scaleTo(back, namespace, name, before); scaled != nil {
			err = errors.Join(err, scaled)
			return
		}
		err = errors.Join(err, c.AwaitReplicas(back, namespace, name, before, 2*time.Minute))
	}()
	if err := c.awaitNoPods(ctx, namespace, name); err != nil {
		return err
	}
	return run()
}

// awaitNoPods waits until the pods of a Deployment have ended: draining ones still serve.
func (c *Cluster) awaitNoPods(ctx context.Context, namespace, name string) error {
	return Await(ctx, 2*time.Minute, "the pods of "+name+" to be gone", func(ctx context.Context) (bool, error) {
		pods, err := c.podsOfDeployment(ctx, namespace, name)
		return err == nil && len(pods) == 0, err
	})
}

func (c *Cluster) podsOfDeployment(ctx context.Context, namespace, name string) ([]corev1.Pod, error) {
	deployment, pods := &appsv1.Deployment{}, &corev1.PodList{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)
	if err == nil {
		err = c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	}
	if err != nil {
		return nil, fmt.Errorf("find the pods of Deployment %s/%s: %w", namespace, name, err)
	}
	return pods.Items, nil
}

// scaleTo scales a Deployment and returns the previous number of replicas.
func (c *Cluster) scaleTo(ctx context.Context, namespace, name string, replicas int32) (int32, error) {
	deployment := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
		return 0, fmt.Errorf("find Deployment %s/%s: %w", namespace, name, err)
	}
	before := ptr.Deref(deployment.Spec.Replicas, 1)
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := c.Patch(ctx, deployment, patch); err != nil {
		return 0, fmt.Errorf("scale Deployment %s/%s: %w", namespace, name, err)
	}
	return before, nil
}

const maxLogLine = 1 << 20

// FollowLogs calls line for every present and future log line of every pod with the labels, until ctx ends. It makes
// one call at a time.
func (c *Cluster) FollowLogs(ctx context.Context, namespace string, labels client.MatchingLabels, line func(pod, text string)) error {
	var mu sync.Mutex
	followed := map[types.UID]bool{}
	return c.RecordPods(ctx, namespace, labels, func(pod *corev1.Pod) {
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
		return // the pod has ended already
	}
	defer func() { _ = stream.Close() }()
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLogLine)
	for scanner.Scan() {
		line(scanner.Text())
	}
}

// RecordAddresses calls seen once for each pod with the labels when it has an address, until ctx ends.
func (c *Cluster) RecordAddresses(
	ctx context.Context, namespace string, labels client.MatchingLabels, seen func(pod *corev1.Pod, at time.Time),
) error {
	known := map[types.UID]bool{}
	return c.RecordPods(ctx, namespace, labels, func(pod *corev1.Pod) {
		if pod.Status.PodIP != "" && pod.DeletionTimestamp.IsZero() && !known[pod.UID] {
			known[pod.UID] = true
			seen(pod, time.Now())
		}
	})
}

// RecordPods calls changed with each state of each pod with the labels, until ctx ends.
func (c *Cluster) RecordPods(ctx context.Context, namespace string, labels client.MatchingLabels, changed func(*corev1.Pod)) error {
	return c.watchEach(ctx, &corev1.PodList{}, func(_ watch.EventType, object runtime.Object) {
		if pod, ok := object.(*corev1.Pod); ok {
			changed(pod)
		}
	}, client.InNamespace(namespace), labels)
}

// watchEach calls changed for every object of a list, at first and after each change, until ctx ends.
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

// MomentOfRunning returns the time at which a Function was observed to run a generation of its spec. Polling would be
// too coarse.
func (c *Cluster) MomentOfRunning(ctx context.Context, namespace, name string, generation int64) (time.Time, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(FunctionGVK)
	last := Condition{}
	at, err := c.moment(ctx, list, func(object runtime.Object) bool {
		function, ok := object.(*unstructured.Unstructured)
		if !ok {
			return false
		}
		last = conditionsOf(function)["Running"]
		return last.Status == "True" && last.Generation >= generation
	}, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		return at, fmt.Errorf("wait for %s/%s to run: it is %v: %w", namespace, name, last, err)
	}
	return at, nil
}

// MomentOfReadyPods returns the time at which n pods of a Function were observed to be ready.
func (c *Cluster) MomentOfReadyPods(ctx context.Context, namespace, function string, n int) (time.Time, error) {
	ready := map[types.UID]bool{}
	at, err := c.moment(ctx, &corev1.PodList{}, func(object runtime.Object) bool {
		if pod, ok := object.(*corev1.Pod); ok && Ready(pod) && pod.DeletionTimestamp.IsZero() {
			ready[pod.UID] = true
		}
		return len(ready) >= n
	}, client.InNamespace(namespace), client.MatchingLabels{FunctionLabel: function})
	if err != nil {
		return at, fmt.Errorf("wait for %d ready pods of %s/%s, has %d: %w", n, namespace, function, len(ready), err)
	}
	return at, nil
}

// moment returns the time at which an object of a list first met a condition.
func (c *Cluster) moment(
	ctx context.Context, list client.ObjectList, wanted func(runtime.Object) bool, which ...client.ListOption,
) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	seen := make(chan time.Time, 1)
	err := c.watchEach(ctx, list, func(_ watch.EventType, object runtime.Object) {
		if wanted(object) {
			select {
			case seen <- time.Now():
			default: // recorded already
			}
		}
	}, which...)
	if err != nil {
		return time.Time{}, err
	}
	select {
	case at := <-seen:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// Reasons records the messages of one condition of a namespace's Functions while it has a certain reason.
type Reasons struct {
	mu       sync.Mutex
	messages []string
}

// RecordReasons watches the Functions of a namespace until ctx ends.
func (c *Cluster) RecordReasons(ctx context.Context, namespace, condition, reason string) (*Reasons, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(FunctionGVK)
	record := &Reasons{}
	return record, c.watchEach(ctx, list, func(_ watch.EventType, object runtime.Object) {
		function, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		if got := conditionsOf(function)[condition]; got.Reason == reason {
			record.add(function.GetName() + ": " + got.Message)
		}
	}, client.InNamespace(namespace))
}

func (r *Reasons) add(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.messages, message) {
		r.messages = append(r.messages, message)
	}
}

// Messages returns the recorded messages without duplicates.
func (r *Reasons) Messages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

// Await waits for a message that contains the part.
func (r *Reasons) Await(ctx context.Context, part string, timeout time.Duration) error {
	return Await(ctx, timeout, fmt.Sprintf("a message with %q", part), func(context.Context) (bool, error) {
		return slices.ContainsFunc(r.Messages(), func(message string) bool { return strings.Contains(message, part) }), nil
	})
}
