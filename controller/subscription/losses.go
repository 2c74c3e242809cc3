package subscription

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
)

// maxLost bounds the consumers that are remembered. With more of them all Subscriptions are reconciled.
const maxLost = 10_000

// Deletions reports deleted streams and consumers.
type Deletions interface {
	OnDeleted(streams []string, deleted func(stream, consumer string)) (stop func(), err error)
}

// losses has streams and consumers created again as soon as a client has deleted them: events published meanwhile are lost.
type losses struct {
	deletions Deletions
	streams   []string
	reader    client.Reader
	request   func(ctx context.Context, subscription types.NamespacedName)
	sweep     func() // has streams created again, and reconciles all Subscriptions
	released  func() // reports that the stream may hold events that no consumer wants
	log       logr.Logger

	wake chan struct{}
	mu   sync.Mutex
	lost map[string]bool // names of consumers
}

// Start listens until ctx ends.
func (l *losses) Start(ctx context.Context) error {
	stop, err := l.deletions.OnDeleted(l.streams, l.record)
	if err != nil {
		return fmt.Errorf("listen for deleted consumers: %w", err)
	}
	defer stop()
	l.sweep() // for what was deleted before
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		if err := l.restore(ctx, l.drain()); err != nil && ctx.Err() == nil {
			l.log.Info("cannot find whose consumers were deleted, reconciling all", "reason", err.Error())
			l.sweep()
		}
	}
}

func (l *losses) record(_, consumer string) {
	l.released()
	l.mu.Lock()
	defer l.mu.Unlock()
	if consumer == "" || broker.IsInternalConsumer(consumer) || len(l.lost) >= maxLost {
		l.sweep()
		return
	}
	l.lost[consumer] = true
	notify(l.wake)
}

func (l *losses) drain() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = map[string]bool{}
	return lost
}

// restore reconciles each Subscription that has lost a consumer and is not being deleted itself.
func (l *losses) restore(ctx context.Context, lost map[string]bool) error {
	for consumer := range lost {
		list := &eventingv1alpha2.SubscriptionList{}
		if err := l.reader.List(ctx, list, client.MatchingFields{consumerIndex: consumer}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list subscriptions: %w", err)
		}
		for i := range list.Items {
			if sub := &list.Items[i]; sub.DeletionTimestamp.IsZero() {
				l.request(ctx, client.ObjectKeyFromObject(sub))
			}
		}
	}
	return nil
}
