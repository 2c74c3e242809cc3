package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	eventrecord "k8s.io/client-go/tools/record"
)

// Notes records Events for a process without a manager, bounded as BoundEvents.
type Notes struct {
	broadcaster eventrecord.EventBroadcaster
	recorder    eventrecord.EventRecorder
	queue       *eventQueue
	client      typedcorev1.EventsGetter
}

// NewNotes returns Notes of a component, which Run writes.
func NewNotes(config *rest.Config, component string) (*Notes, error) {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for Events: %w", err)
	}
	n := &Notes{broadcaster: eventrecord.NewBroadcaster(), queue: newEventQueue(), client: client}
	n.broadcaster.StartEventWatcher(n.queue.push)
	n.recorder = n.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})
	return n, nil
}

// Add records a normal Event on an object, which has its kind.
func (n *Notes) Add(object runtime.Object, reason, note string) {
	n.recorder.Event(object, corev1.EventTypeNormal, reason, Truncate(note, MaxEventNote))
}

// Run writes Events until ctx ends.
func (n *Notes) Run(ctx context.Context) error {
	defer n.broadcaster.Shutdown()
	n.queue.write(ctx, n.client)
	return nil
}
