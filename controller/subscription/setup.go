package subscription

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
)

// Broker is the connection to NATS as this controller needs it.
type Broker interface {
	Consumers
	Streams
	ConsumerRecovery
	Neighbours
	Unwanted
	Notices
}

// Notices report what happens to the connection and on the server.
type Notices interface {
	Deletions
	// OnConnect calls f at each connect, and at once when there is a connection.
	OnConnect(f func())
}

// Setup adds the Subscription controller to a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, conn Broker, registerer prometheus.Registerer, options Options) error {
	if !options.AllowEventingManager {
		conn = &guard{Broker: conn, stream: options.Stream.Name}
	}
	if err := indexSubscriptions(ctx, mgr.GetFieldIndexer(), options.Sinks); err != nil {
		return err
	}
	released, missing := make(chan struct{}, 1), make(chan struct{}, 1)
	reconciler := &Reconciler{
		client:    mgr.GetClient(),
		consumers: conn,
		stream:    options.Stream.Name,
		policy:    options.Sinks,
		readiness: newReadiness(registerer, options.Stream.Name),
		denials:   newDenials(registerer),
		recorder:  mgr.GetEventRecorder("subscription-controller"),
		clock:     clock.RealClock{},
		released:  func() { notify(released) },
		missing:   func() { notify(missing) },
	}
	requests := make(chan event.GenericEvent)
	err := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: options.MaxConcurrentReconciles}).
		Named("subscription").
		// Its own status too: what was computed from a stale cache is computed again.
		For(&eventingv1alpha2.Subscription{}).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(subscriptionsOf(mgr.GetClient())),
			builder.WithPredicates(servedOtherwise())).
		WatchesRawSource(source.Channel(requests, &handler.EnqueueRequestForObject{})).
		Complete(reconciler)
	if err != nil {
		return fmt.Errorf("set up the Subscription controller: %w", err)
	}

	return addParts(mgr, conn, registerer, options, reconciler, requests, released, missing)
}

// addParts adds what runs beside the reconciler.
func addParts(
	mgr ctrl.Manager, conn Broker, registerer prometheus.Registerer, options Options,
	reconciler *Reconciler, requests chan<- event.GenericEvent, released, missing <-chan struct{},
) error {
	connected := make(chan struct{}, 1)
	conn.OnConnect(func() { notify(connected) })
	log := mgr.GetLogger().WithName("subscription")
	shown := newMetrics(registerer)
	drops := &dropper{unwanted: conn, stream: options.Stream.Name, soon: released, dropped: newDropped(registerer), log: log}
	resync := &sweeper{
		reader:           mgr.GetClient(),
		statuses:         mgr.GetClient(),
		consumers:        conn,
		streams:          conn,
		options:          options.Stream,
		policy:           options.Sinks,
		connected:        connected,
		missing:          missing,
		requests:         requests,
		metrics:          shown,
		foreignConsumers: newForeignConsumers(registerer, log),
		watchdog: &watchdog{
			recoverer: conn,
			stream:    options.Stream.Name,
			recorder:  reconciler.recorder,
			metrics:   shown,
			clock:     reconciler.clock,
			log:       log,
		},
		log: log,
	}
	lost := &losses{
		deletions: conn,
		streams:   []string{options.Stream.Name, broker.RetryStream, broker.DeadLetterStream},
		reader:    mgr.GetClient(),
		request:   resync.request,
		sweep:     func() { notify(connected) },
		released:  reconciler.released,
		log:       log,
		wake:      make(chan struct{}, 1),
		lost:      map[string]bool{},
	}
	for _, part := range []manager.Runnable{drops, resync, lost} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("set up the Subscription controller: %w", err)
		}
	}
	return nil
}

// notify wakes the reader of the channel, unless a notification is pending.
func notify(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
