package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	eventrecord "k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// rememberedEvents are kept to count repetitions.
const rememberedEvents = 1024

// BoundEvents has the recorders of a manager bounded, by client-go's package record: a thousand Events wait to be written, one at a
// time, and an object that has had 25 gets another one every five minutes. Package events, which a manager has otherwise, keeps each
// Event for six to twelve minutes and starts a goroutine for it.
func BoundEvents(mgr ctrl.Manager) (ctrl.Manager, error) {
	client, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for Events: %w", err)
	}
	broadcaster := eventrecord.NewBroadcasterWithCorrelatorOptions(eventrecord.CorrelatorOptions{LRUCacheSize: rememberedEvents})
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
		<-ctx.Done()
		broadcaster.Shutdown()
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("set up the recording of Events: %w", err)
	}
	return &boundedEvents{Manager: mgr, broadcaster: broadcaster}, nil
}

type boundedEvents struct {
	ctrl.Manager

	broadcaster eventrecord.EventBroadcaster
}

// GetEventRecorder implements ctrl.Manager.
func (b *boundedEvents) GetEventRecorder(component string) events.EventRecorder {
	return eventRecorder{b.broadcaster.NewRecorder(b.GetScheme(), corev1.EventSource{Component: component})}
}

// eventRecorder leaves out what only the other package's Events have.
type eventRecorder struct{ recorder eventrecord.EventRecorder }

// Eventf implements events.EventRecorder.
func (r eventRecorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.recorder.Eventf(regarding, kind, reason, note, args...)
}
