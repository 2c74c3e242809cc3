package framework

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds that features wait for.
var (
	FunctionGVK     = schema.GroupVersionKind{Group: "serverless.kyma-project.io", Version: "v1alpha2", Kind: "Function"}
	SubscriptionGVK = schema.GroupVersionKind{Group: "eventing.kyma-project.io", Version: "v1alpha2", Kind: "Subscription"}
)

// Condition is one condition of an object's status.
type Condition struct {
	Type, Status, Reason, Message string
	Generation                    int64 // of the spec that it is about
}

// Conditions reads the conditions of an object, by type.
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
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"})
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return false, err
		}
		got, _, err := unstructured.NestedInt64(object.Object, "spec", "pollingInterval")
		return got == seconds, err
	})
}
