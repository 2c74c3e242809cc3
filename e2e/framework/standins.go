package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StandInLabel is the label of pods that stand in for a Function, with the values waits and serves.
const StandInLabel = "rouse.run/stand-in"

// WithinStandIns is part of the spec of a Function that stand-ins can serve, which have the default profile.
func WithinStandIns() map[string]any {
	spec := map[string]any{}
	_ = json.Unmarshal([]byte(`{"resourceConfiguration": {"function": {"resources": {
		"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"cpu": "800m", "memory": "256Mi"}
	}}}}`), &spec)
	return spec
}

// AskForStandIns sets which stand-ins a namespace has, as nodejs22=2,python312=1.
func (c *Cluster) AskForStandIns(ctx context.Context, namespace, list string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"rouse.run/stand-ins":%q}}}`, list)
	if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("ask for stand-ins in namespace %s: %w", namespace, err)
	}
	return nil
}

// AwaitStandIns waits until n stand-ins of a namespace wait and are ready, and returns them.
func (c *Cluster) AwaitStandIns(ctx context.Context, namespace string, n int) (waiting []corev1.Pod, err error) {
	what := fmt.Sprintf("%d stand-ins in namespace %s", n, namespace)
	err = Await(ctx, 2*time.Minute, what, func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{StandInLabel: "waits"}); err != nil {
			return false, err
		}
		waiting = nil
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.DeletionTimestamp.IsZero() && Ready(pod) {
				waiting = append(waiting, *pod)
			}
		}
		if len(waiting) != n {
			return false, fmt.Errorf("%d are ready", len(waiting))
		}
		return true, nil
	})
	return waiting, err
}

// ServingStandIns records the stand-ins that serve a Function.
type ServingStandIns struct {
	mu   sync.Mutex
	seen []string
}

// RecordServingStandIns watches a namespace until ctx ends, and calls first for each stand-in when it begins to serve.
func (c *Cluster) RecordServingStandIns(ctx context.Context, namespace string, first func(*corev1.Pod)) (*ServingStandIns, error) {
	record := &ServingStandIns{}
	err := c.RecordPods(ctx, namespace, client.MatchingLabels{StandInLabel: "serves"}, func(pod *corev1.Pod) {
		if record.add(pod.Name) {
			first(pod)
		}
	})
	return record, err
}

func (s *ServingStandIns) add(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.seen, name) {
		return false
	}
	s.seen = append(s.seen, name)
	return true
}

// Names returns the stand-ins that have served.
func (s *ServingStandIns) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}
