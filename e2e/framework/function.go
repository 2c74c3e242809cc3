package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Function reads a Function.
func (c *Cluster) Function(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	function := &unstructured.Unstructured{}
	function.SetGroupVersionKind(FunctionGVK)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, function); err != nil {
		return nil, fmt.Errorf("get Function %s/%s: %w", namespace, name, err)
	}
	return function, nil
}

// Annotate sets annotations of a Function and leaves its other ones alone. An empty value removes one.
func (c *Cluster) Annotate(ctx context.Context, namespace, name string, annotations map[string]string) error {
	values := map[string]any{}
	for key, value := range annotations {
		values[key] = value
		if value == "" {
			values[key] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	function := &unstructured.Unstructured{}
	function.SetGroupVersionKind(FunctionGVK)
	function.SetNamespace(namespace)
	function.SetName(name)
	if err := c.Patch(ctx, function, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Answer asks a Function once.
func (c *Cluster) Answer(ctx context.Context, namespace, name string) (string, error) {
	status, text, err := c.Request(ctx, http.MethodGet, namespace, name, "", nil, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, text)
	}
	return text, err
}

// AwaitAnswer waits until a Function answers exactly this.
func (c *Cluster) AwaitAnswer(ctx context.Context, namespace, name, want string, timeout time.Duration) error {
	return Await(ctx, timeout, fmt.Sprintf("%s/%s to answer %q", namespace, name, want), func(ctx context.Context) (bool, error) {
		answer, err := c.Answer(ctx, namespace, name)
		if err == nil && answer != want {
			err = fmt.Errorf("it answers %q", answer)
		}
		return err == nil, err
	})
}

// AwaitMessage waits until a condition of a Function has the status and a message with all the parts.
func (c *Cluster) AwaitMessage(
	ctx context.Context, namespace, name, condition, status string, timeout time.Duration, parts ...string,
) (Condition, error) {
	var got Condition
	what := fmt.Sprintf("%s/%s to be %s=%s with %q", namespace, name, condition, status, parts)
	err := Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		conditions, err := c.Conditions(ctx, namespace, FunctionGVK, name)
		if err != nil {
			return false, err
		}
		got = conditions[condition]
		if got.Status != status {
			return false, fmt.Errorf("it is %q: all conditions: %v", got.Status, conditions)
		}
		for _, part := range parts {
			if !strings.Contains(got.Message, part) {
				return false, fmt.Errorf("%q does not say %q", got.Message, part)
			}
		}
		return true, nil
	})
	return got, err
}

// Events are the events about a Function.
func (c *Cluster) Events(ctx context.Context, namespace, function string) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list events of %s: %w", namespace, err)
	}
	var found []corev1.Event
	for _, event := range list.Items {
		if event.InvolvedObject.Kind == FunctionGVK.Kind && event.InvolvedObject.Name == function {
			found = append(found, event)
		}
	}
	return found, nil
}

// AwaitNoPods waits until a Function has no pod, not even one that is ending.
func (c *Cluster) AwaitNoPods(ctx context.Context, namespace, function string, timeout time.Duration) error {
	return Await(ctx, timeout, "all pods of "+function+" to be gone", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{FunctionLabel: function})
		return err == nil && len(pods.Items) == 0, err
	})
}

// DeleteSecret deletes a Secret.
func (c *Cluster) DeleteSecret(ctx context.Context, namespace, name string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Delete(ctx, secret); err != nil {
		return fmt.Errorf("delete Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}
