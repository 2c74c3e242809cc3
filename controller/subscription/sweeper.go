package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// sweepInterval is how often consumers and Subscriptions are compared. NATS
// tells nobody that a consumer is gone.
const sweepInterval = 30 * time.Second

// Streams makes the streams that consumers need.
type Streams interface {
	EnsureStreams(ctx context.Context, options broker.StreamOptions) error
}

// sweeper brings consumers and Subscriptions together again, at the start,
// whenever NATS is reached, and every now and then.
type sweeper struct {
	reader    client.Reader
	consumers Consumers
	streams   Streams
	options   broker.StreamOptions
	connected <-chan struct{}
	requests  chan<- event.GenericEvent
	log       logr.Logger
}

// Start sweeps until ctx ends.
func (s *sweeper) Start(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for all := true; ; {
		if err := s.sweep(ctx, all); err != nil && ctx.Err() == nil {
			s.log.Info("consumers and subscriptions are not compared for now", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.connected:
			all = true
		case <-ticker.C:
			all = false
		}
	}
}

// sweep asks for a pass for each Subscription, or only for those whose
// consumer is missing, and for each consumer whose Subscription is missing.
func (s *sweeper) sweep(ctx context.Context, all bool) error {
	streamErr := s.streams.EnsureStreams(ctx, s.options)
	consumers, consumersErr := s.consumers.Consumers(ctx, s.options.Name)
	list := &eventingv1alpha2.SubscriptionList{}
	if err := s.reader.List(ctx, list); err != nil {
		return fmt.Errorf("list subscriptions: %w", err)
	}
	stray := make(map[types.NamespacedName]bool, len(consumers))
	for _, consumer := range consumers {
		if key, ours := subscriptionOf(consumer); ours {
			stray[key] = true
		}
	}
	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		has := stray[key]
		delete(stray, key)
		if _, err := routing.FromSubscription(&list.Items[i]); err == nil && (all || !has) {
			s.request(ctx, key)
		}
	}
	for key := range stray {
		s.request(ctx, key)
	}
	return errors.Join(streamErr, consumersErr)
}

func (s *sweeper) request(ctx context.Context, key types.NamespacedName) {
	object := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case s.requests <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
