package subscription

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/controller/keyring"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

// Options configures the Subscription controller.
type Options struct {
	// Stream configures the stream of events.
	Stream broker.StreamOptions
	// Sinks restricts the destinations of events outside of the Subscription's own namespace.
	Sinks routing.Policy
	// AllowEventingManager allows a stream that Kyma's eventing-manager uses, too.
	AllowEventingManager bool
	// Migration is the ConfigMap of rouse migrate. Without it nothing is taken over from eventing-manager.
	Migration types.NamespacedName
	// Keyring hands the keys by which Subscriptions sign to the bridges; nil: none signs.
	Keyring *keyring.Keyring
	// MaxConcurrentReconciles bounds the concurrent reconciliations.
	MaxConcurrentReconciles int
}

// DefaultOptions returns the settings of an installation that sets none.
func DefaultOptions() Options {
	return Options{Stream: broker.DefaultStreamOptions(), MaxConcurrentReconciles: 4}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Add(&o.Stream, &o.Sinks)
	fs.Bool(&o.AllowEventingManager, "allow-eventing-manager",
		"use a stream in which Kyma's eventing-manager has consumers, although it deletes ours whenever it starts")
	fs.Service(&o.Migration, "migration",
		"ConfigMap, namespace/name, by which rouse migrate has the controller take over from the consumers of Kyma's eventing-manager; empty: none")
	fs.Int(&o.MaxConcurrentReconciles, "subscription-concurrent-reconciles", "how many Subscriptions are worked on at a time").AtLeast(1)
}

// Broker is the part of the connection to NATS that this controller needs.
type Broker interface {
	Consumers
	Streams
	ConsumerRecovery
	Neighbours
	Unwanted
	Notices
}

// Notices reports events of the connection and of the server.
type Notices interface {
	Deletions
	// OnConnect calls f at each connect, and at once when there is a connection.
	OnConnect(f func())
}

// Setup adds the Subscription controller to a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, conn Broker, registerer prometheus.Registerer, options Options) error {
	connected := make(chan struct{}, 1)
	if !options.AllowEventingManager {
		guarded := &guard{Broker: conn, stream: options.Stream.Name}
		if options.Migration.Name != "" {
			if err := followOrders(mgr, options.Migration, guarded, func() { notify(connected) }); err != nil {
				return err
			}
		}
		conn = guarded
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
		keyring:   options.Keyring,
		readiness: newReadiness(registerer, options.Stream.Name),
		denials:   newDenials(registerer),
		recorder:  mgr.GetEventRecorder("subscription-controller"),
		clock:     clock.RealClock{},
		released:  func() { notify(released) },
		missing:   func() { notify(missing) },
	}
	requests := make(chan event.GenericEvent)
	worker := kube.NewController(mgr, controller.Options{MaxConcurrentReconciles: options.MaxConcurrentReconciles}).
		Named("subscription").
		// Its own status too: what was computed from a stale cache is computed again.
		For(&eventingv1alpha2.Subscription{}).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(subscriptionsOf(mgr.GetClient(), sinkIndex)),
			builder.WithPredicates(servedOtherwise())).
		WatchesRawSource(source.Channel(requests, &handler.EnqueueRequestForObject{}))
	if options.Keyring != nil {
		worker.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(subscriptionsOf(mgr.GetClient(), signingIndex)))
	}
	if err := worker.Complete(reconciler); err != nil {
		return fmt.Errorf("set up the Subscription controller: %w", err)
	}

	return addParts(mgr, conn, registerer, options, reconciler, requests, released, missing, connected)
}

// addParts adds the runnables next to the reconciler.
func addParts(
	mgr ctrl.Manager, conn Broker, registerer prometheus.Registerer, options Options,
	reconciler *Reconciler, requests chan<- event.GenericEvent, released, missing <-chan struct{}, connected chan struct{},
) error {
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

// Indexes of Subscriptions. Without them each change of a Service or consumer would scan all Subscriptions.
const (
	// sinkIndex finds the Subscriptions whose events or dead letters go to a Service, by its namespace/name.
	sinkIndex = "rouse.sink"
	// consumerIndex finds the Subscription of a consumer, by the consumer's name.
	consumerIndex = "rouse.consumer"
)

// indexers maps each index to its function.
func indexers(policy routing.Policy) map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{sinkIndex: indexSinks(policy), consumerIndex: indexConsumer, signingIndex: indexSigning}
}

func indexSubscriptions(ctx context.Context, indexer client.FieldIndexer, policy routing.Policy) error {
	for field, values := range indexers(policy) {
		if err := indexer.IndexField(ctx, &eventingv1alpha2.Subscription{}, field, values); err != nil {
			return fmt.Errorf("index the Subscriptions: %w", err)
		}
	}
	return nil
}

// indexSinks omits invalid Subscriptions: no Service makes them valid.
func indexSinks(policy routing.Policy) client.IndexerFunc {
	return func(object client.Object) []string {
		sub, ok := object.(*eventingv1alpha2.Subscription)
		if !ok {
			return nil
		}
		route, err := routing.FromSubscription(sub, policy)
		if err != nil {
			return nil
		}
		services := []string{route.Service.String()}
		if route.DeadLetters != nil && route.DeadLetters.Service != route.Service {
			services = append(services, route.DeadLetters.Service.String())
		}
		return services
	}
}

func indexConsumer(object client.Object) []string {
	return []string{routing.ConsumerName(object.GetNamespace(), object.GetName())}
}

// CacheObjects limits what the manager's cache holds of Subscriptions; pass it to the manager as part of cache.Options.ByObject.
func CacheObjects() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&eventingv1alpha2.Subscription{}: {Transform: withSharedTexts}}
}

func withSharedTexts(object any) (any, error) {
	if sub, ok := object.(*eventingv1alpha2.Subscription); ok {
		kube.ShareTexts(sub)
		for i := range sub.Status.Conditions {
			condition := &sub.Status.Conditions[i]
			kube.ShareText(&condition.Type)
			kube.ShareText(&condition.Status)
			kube.ShareText(&condition.Reason)
		}
	}
	return kube.WithoutManagedFields(object)
}
