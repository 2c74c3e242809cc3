package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	eventrecord "k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// rememberedEvents is the number of Events that are kept to count repetitions.
	rememberedEvents = 1024
	// waitingEvents bounds the queue of Events to write, of which a namespace may use as much as it leaves free.
	waitingEvents = 1000
	// writeEventTries and writeEventPause bound how long an Event delays the next ones while the API server is
	// unavailable.
	writeEventTries = 12
	writeEventPause = 10 * time.Second
)

// MaxEventNote is the longest note of an Event that the API server accepts.
const MaxEventNote = 1024

// RecordTransitions records an Event for each condition of an object that is new, or whose status or reason has changed: a warning
// where it is False, but for calm reasons.
func RecordTransitions(recorder events.EventRecorder, object runtime.Object, action string, before, after []metav1.Condition, calm ...string) {
	for _, changed := range Transitions(before, after) {
		kind := corev1.EventTypeNormal
		if changed.Status == metav1.ConditionFalse && !slices.Contains(calm, changed.Reason) {
			kind = corev1.EventTypeWarning
		}
		recorder.Eventf(object, nil, kind, changed.Reason, action, "%s", Truncate(changed.Message, MaxEventNote))
	}
}

// BoundEvents bounds the recorders of a manager: at most a thousand Events are queued, namespaces take turns, Events
// are written one at a time, and an object that has had 25 gets another one every five minutes. client-go's package
// events, a manager's default, keeps each Event for six to twelve minutes and starts a goroutine for it; its package
// record is first come, first served.
func BoundEvents(mgr ctrl.Manager) (ctrl.Manager, error) {
	client, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for Events: %w", err)
	}
	broadcaster := eventrecord.NewBroadcaster()
	queue := newEventQueue()
	broadcaster.StartEventWatcher(queue.push)
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer broadcaster.Shutdown()
		queue.write(ctx, client)
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

// eventRecorder drops the parameters that only the package events supports.
type eventRecorder struct{ recorder eventrecord.EventRecorder }

// Eventf implements events.EventRecorder.
func (r eventRecorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.recorder.Eventf(regarding, kind, reason, note, args...)
}

// eventQueue holds the Events to write.
type eventQueue struct {
	correlator *eventrecord.EventCorrelator
	places     *fair.Pool
	wake       chan struct{}

	mu      sync.Mutex
	waiting fair.Queue[*corev1.Event]
}

func newEventQueue() *eventQueue {
	return &eventQueue{
		correlator: eventrecord.NewEventCorrelatorWithOptions(eventrecord.CorrelatorOptions{LRUCacheSize: rememberedEvents}),
		places:     fair.NewPool(fair.Limits{Total: waitingEvents}),
		wake:       make(chan struct{}, 1),
	}
}

// push drops an Event when its namespace's part of the queue is full. Conditions report the same and are always
// written.
func (q *eventQueue) push(event *corev1.Event) {
	if !q.places.TryAcquire(event.Namespace, 1) {
		return
	}
	q.mu.Lock()
	q.waiting.Push(event.Namespace, event)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *eventQueue) pop() (*corev1.Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	event, ok := q.waiting.Pop()
	if ok {
		q.places.Release(event.Namespace, 1)
	}
	return event, ok
}

// write writes Events until ctx ends.
func (q *eventQueue) write(ctx context.Context, to typedcorev1.EventsGetter) {
	for ctx.Err() == nil {
		event, ok := q.pop()
		if !ok {
			select {
			case <-q.wake:
			case <-ctx.Done():
			}
			continue
		}
		correlated, err := q.correlator.EventCorrelate(event)
		if err != nil || correlated.Skip {
			continue
		}
		q.record(ctx, to, correlated.Event, correlated.Patch)
	}
}

// record writes one Event, or increments the count of the one that it repeats. It drops Events that the API server
// rejects.
func (q *eventQueue) record(ctx context.Context, to typedcorev1.EventsGetter, event *corev1.Event, patch []byte) {
	for range writeEventTries {
		written, err := writeEvent(ctx, to.Events(event.Namespace), event, patch)
		if err == nil {
			q.correlator.UpdateState(written)
			return
		}
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			return
		}
		select {
		case <-time.After(writeEventPause):
		case <-ctx.Done():
			return
		}
	}
}

func writeEvent(ctx context.Context, to typedcorev1.EventInterface, event *corev1.Event, patch []byte) (*corev1.Event, error) {
	if event.Count > 1 && len(patch) > 0 {
		written, err := to.Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	event.ResourceVersion = "" // set when it was written before
	return to.Create(ctx, event, metav1.CreateOptions{})
}
