package target

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Pause pauses a Subscription, or resumes it. changed is false if it was so already.
func (o *Objects) Pause(ctx context.Context, namespace, name string, pause bool) (changed bool, err error) {
	before, err := o.Get(ctx, subscriptionsResource(), namespace, name)
	if err != nil || before == nil {
		return false, err
	}
	if was, _, _ := unstructured.NestedBool(before.Object, "spec", "paused"); was == pause {
		return false, nil
	}
	// Without a value the field has no owner whom a manifest with one could contradict.
	value := map[bool]string{true: "true", false: "null"}[pause]
	_, err = o.Merge(ctx, subscriptionsResource(), namespace, name, fmt.Sprintf(`{"spec":{"paused":%s}}`, value))
	return err == nil, err
}
