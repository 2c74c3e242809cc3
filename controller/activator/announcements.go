package activator

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Announcements say which Functions are idle.
type Announcements interface {
	// WatchIdle calls apply with each Function that is announced, until ctx ends.
	WatchIdle(ctx context.Context, apply func(types.NamespacedName)) error
}

// listener takes announcements over. A wrong one lists activators that are not needed, which does no harm.
type listener struct {
	announcements Announcements
	memories      *memories
	clock         clock.PassiveClock
	requests      chan<- event.GenericEvent
}

// Start listens until ctx ends.
func (l *listener) Start(ctx context.Context) error {
	return l.announcements.WatchIdle(ctx, func(function types.NamespacedName) {
		if l.memories.announce(function, l.clock.Now()) {
			send(ctx, l.requests, &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: function.Namespace, Name: function.Name}})
		}
	})
}

func send(ctx context.Context, requests chan<- event.GenericEvent, object client.Object) {
	select {
	case requests <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
