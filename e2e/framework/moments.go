package framework

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MomentOfRunning is when a Function was seen to run what a generation of its spec asks for. Polling would be too coarse.
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

// MomentOfReadyPods is when n pods of a Function were seen to be ready.
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

// moment is when an object of a list was first seen to be as wanted.
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
			default: // it was seen before
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
