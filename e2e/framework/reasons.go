package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons records what the Functions of a namespace say in one condition while it has one reason.
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

// Messages are the recorded messages, each once.
func (r *Reasons) Messages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

// Await waits until something was said that contains the part.
func (r *Reasons) Await(ctx context.Context, part string, timeout time.Duration) error {
	return Await(ctx, timeout, fmt.Sprintf("a word about %q", part), func(context.Context) (bool, error) {
		return slices.ContainsFunc(r.Messages(), func(message string) bool { return strings.Contains(message, part) }), nil
	})
}
