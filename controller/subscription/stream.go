package subscription

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
)

// maxLost bounds the recorded consumers. Beyond it all Subscriptions are reconciled.
const maxLost = 10_000

// Deletions reports deleted streams and consumers.
type Deletions interface {
	OnDeleted(streams []string, deleted func(stream, consumer string)) (stop func(), err error)
}

// losses recreates streams and consumers as soon as a client has deleted them: events published meanwhile are lost.
type losses struct {
	deletions Deletions
	streams   []string
	reader    client.Reader
	request   func(ctx context.Context, subscription types.NamespacedName)
	sweep     func() // recreates streams, and reconciles all Subscriptions
	released  func() // reports that the stream may contain events that no consumer wants
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
	l.sweep() // for earlier deletions
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		if err := l.restore(ctx, l.drain()); err != nil && ctx.Err() == nil {
			l.log.Info("cannot find the Subscriptions of deleted consumers, reconciling all", "reason", err.Error())
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

const (
	// dropInterval is how often the stream is checked for events without interest.
	dropInterval = 30 * time.Second
	// dropShare bounds the time spent on that to one part in so many.
	dropShare = 30
)

// Unwanted removes events whose consumers were deleted or have lost subjects.
type Unwanted interface {
	DropUnwanted(ctx context.Context, stream string) (uint64, error)
}

// dropper keeps a stream from filling up with events that no consumer wants.
type dropper struct {
	unwanted Unwanted
	stream   string
	soon     <-chan struct{} // a consumer was deleted
	dropped  prometheus.Counter
	log      logr.Logger
}

func newDropped(registerer prometheus.Registerer) prometheus.Counter {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "rouse_controller_dropped_events_total",
		Help: "Events that no consumer wanted any more, which NATS had not removed and the controller did.",
	})
	registerer.MustRegister(dropped)
	return dropped
}

// Start drops such events until ctx ends.
func (d *dropper) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.soon:
		case <-timer.C:
			select {
			case <-d.soon: // one run serves both
			default:
			}
		}
		began := time.Now()
		d.drop(ctx)
		pause := dropShare * time.Since(began)
		timer.Reset(max(dropInterval, pause))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (d *dropper) drop(ctx context.Context) {
	dropped, err := d.unwanted.DropUnwanted(ctx, d.stream)
	d.dropped.Add(float64(dropped))
	if dropped > 0 {
		d.log.Info("removed events that no consumer wants", "stream", d.stream, "events", dropped)
	}
	if err != nil && ctx.Err() == nil && !isLoggedElsewhere(err) {
		d.log.Info("cannot find events that no consumer wants", "stream", d.stream, "reason", err.Error())
	}
}

// isLoggedElsewhere reports whether other parts log the error.
func isLoggedElsewhere(err error) bool {
	return errors.Is(err, broker.ErrNotConnected) || errors.Is(err, broker.ErrNoStream) || isBlocked(err)
}
