package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// sweepInterval is how often consumers and Subscriptions are compared. NATS reports deletions at once, but no
	// changes.
	sweepInterval = 30 * time.Second
	// retryInterval replaces it after a failure.
	retryInterval = 2 * time.Second
)

// Streams creates the streams that consumers need.
type Streams interface {
	EnsureStreamsFor(
		ctx context.Context, options broker.StreamOptions, interested func(ctx context.Context) ([]broker.Consumer, error),
	) error
}

// sweeper creates the streams, and reconciles consumers with Subscriptions: at the start, at each connect to NATS, and
// periodically.
type sweeper struct {
	reader           client.Reader
	statuses         client.StatusClient
	consumers        Consumers
	streams          Streams
	options          broker.StreamOptions
	policy           routing.Policy
	connected        <-chan struct{}
	missing          <-chan struct{} // signalled when a reconciliation did not find the stream of events
	requests         chan<- event.GenericEvent
	metrics          *metrics
	foreignConsumers *foreignConsumers
	watchdog         *watchdog
	log              logr.Logger
}

// Start sweeps until ctx ends.
func (s *sweeper) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for all := true; ; {
		err := s.sweep(ctx, all)
		if err != nil && ctx.Err() == nil {
			s.log.Info("streams and consumers are not in their desired state", "reason", err.Error())
		}
		timer.Reset(pause(err))
		select {
		case <-ctx.Done():
			return nil
		case <-s.connected:
			all = true
		case <-s.missing:
			if !sleep(ctx, deletionDelay) { // many reconciliations signal it at the same time
				return nil
			}
			all = false
		case <-timer.C:
			all = false
		}
	}
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pause is short while NATS is reachable but does not do what it should, for example because it has just started.
// Publishing fails without a stream.
func pause(err error) time.Duration {
	if errors.Is(err, broker.ErrBeingDeleted) {
		return deletionDelay
	}
	if err == nil || errors.Is(err, broker.ErrNotConnected) || isBlocked(err) {
		return sweepInterval
	}
	return retryInterval
}

// sweep reconciles each Subscription, or only those whose consumer is missing or differs, and for each consumer its
// missing Subscription. The watchdog inspects the other consumers.
func (s *sweeper) sweep(ctx context.Context, all bool) error {
	streamErr := s.streams.EnsureStreamsFor(ctx, s.options, s.interested)
	consumers, consumersErr := s.consumers.Consumers(ctx, s.options.Name)
	if consumersErr == nil {
		s.metrics.show(consumers)
		s.foreignConsumers.show(consumers)
	}
	// Listed before the Subscriptions, so that the Subscription of each listed consumer is listed, too.
	deadLetters, deadLettersErr := s.consumers.Consumers(ctx, broker.DeadLetterStream)
	retries, retriesErr := s.consumers.WaitingRetries(ctx)
	list := &eventingv1alpha2.SubscriptionList{}
	if err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // they belong to the cache and are not modified
		return fmt.Errorf("list subscriptions: %w", err)
	}
	stray, deadLettersOf := bySubscription(consumers), bySubscription(deadLetters)
	strayRetries(stray, retries)
	watchedConsumers := make([]watchedConsumer, 0, len(list.Items))
	for i := range list.Items {
		sub := &list.Items[i]
		key := client.ObjectKeyFromObject(sub)
		seen := stray[key]
		route, err := routing.FromSubscription(sub, s.policy)
		fit := err == nil && fits(route, stray) && deadLettersFit(route, deadLettersOf)
		delete(stray, key)
		switch {
		case err != nil: // the Subscription is invalid, and keeps its consumer
		case all || !fit:
			s.request(ctx, key)
		default:
			watchedConsumers = append(watchedConsumers, watchedConsumer{
				subscription: sub, wanted: func() broker.Consumer { return s.wanted(sub) }, seen: seen, held: heldTimeout(route),
			})
		}
	}
	if consumersErr == nil {
		s.watchdog.inspect(ctx, watchedConsumers)
	}
	for key := range stray {
		s.request(ctx, key)
	}
	return errors.Join(streamErr, consumersErr, deadLettersErr, retriesErr, s.dismiss(ctx, deadLettersOf, list), s.countDeadLetters(ctx, list))
}

// wanted returns the desired consumer of a valid Subscription.
func (s *sweeper) wanted(sub *eventingv1alpha2.Subscription) broker.Consumer {
	route, _ := routing.FromSubscription(sub, s.policy)
	return broker.ConsumerOf(route)
}

// strayRetries adds deleted Subscriptions with retries: a bridge stored them after the others were purged.
func strayRetries(stray map[types.NamespacedName]*broker.Consumer, retries map[types.NamespacedName]uint64) {
	for key := range retries {
		if _, ok := stray[key]; !ok {
			stray[key] = nil
		}
	}
}

// interested returns the consumers that a new stream needs before its first event.
func (s *sweeper) interested(ctx context.Context) ([]broker.Consumer, error) {
	list := &eventingv1alpha2.SubscriptionList{}
	if err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	var consumers []broker.Consumer
	for i := range list.Items {
		sub := &list.Items[i]
		if !sub.DeletionTimestamp.IsZero() || len(admission.Subscription(sub, s.policy)) > 0 {
			continue
		}
		if route, err := routing.FromSubscription(sub, s.policy); err == nil {
			consumers = append(consumers, broker.ConsumerOf(route))
		}
	}
	return consumers, nil
}

// bySubscription omits consumers that are not ours.
func bySubscription(consumers []broker.Consumer) map[types.NamespacedName]*broker.Consumer {
	ours := make(map[types.NamespacedName]*broker.Consumer, len(consumers))
	for i := range consumers {
		if key, ok := broker.SubscriptionOf(consumers[i]); ok {
			ours[key] = &consumers[i]
		}
	}
	return ours
}

// fits reports whether the consumer of a route exists and has its desired configuration.
func fits(route routing.Route, consumers map[types.NamespacedName]*broker.Consumer) bool {
	seen := consumers[route.Subscription]
	return seen != nil && broker.ConsumerOf(route).Matches(*seen)
}

// deadLettersFit is the same for the dead letters of a route.
func deadLettersFit(route routing.Route, consumers map[types.NamespacedName]*broker.Consumer) bool {
	return route.DeadLetters == nil || fits(*route.DeadLetters, consumers)
}

// dismiss deletes the consumers of dead letters that no longer have a sink. The dead letters stay.
func (s *sweeper) dismiss(
	ctx context.Context, consumers map[types.NamespacedName]*broker.Consumer, list *eventingv1alpha2.SubscriptionList,
) error {
	for i := range list.Items {
		if _, wanted := routing.DeadLetterSink(&list.Items[i]); wanted {
			delete(consumers, client.ObjectKeyFromObject(&list.Items[i])) // also while the Subscription is invalid
		}
	}
	var errs []error
	for _, consumer := range consumers {
		errs = append(errs, s.consumers.DeleteConsumer(ctx, broker.DeadLetterStream, consumer.Name))
	}
	return errors.Join(errs...)
}

// countDeadLetters writes the counts of dead letters into the statuses.
func (s *sweeper) countDeadLetters(ctx context.Context, list *eventingv1alpha2.SubscriptionList) error {
	counts, err := s.consumers.DeadLetterCounts(ctx)
	if err != nil {
		return err
	}
	dropped, err := s.consumers.DroppedDeadLetters(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		before := &list.Items[i]
		key := client.ObjectKeyFromObject(before)
		count, lost := int64(counts[key]), dropped[key]
		if len(before.Status.Conditions) == 0 { // it has no status yet
			continue
		}
		if before.Status.DeadLetters == count && slices.ContainsFunc(before.Status.Conditions, isDeadLettersDropped) == lost {
			continue
		}
		after := before.DeepCopy()
		after.Status.DeadLetters = count
		conditions := slices.DeleteFunc(slices.Clone(before.Status.Conditions), isDeadLettersDropped)
		if lost {
			conditions = slices.Insert(conditions, beforeSummary(conditions), deadLettersDroppedCondition())
		}
		after.Status.Conditions = withTimes(before.Status.Conditions, time.Now(), conditions...)
		errs = append(errs, patchStatus(ctx, s.statuses, before, after)) // after a conflict the next sweep follows soon
	}
	return errors.Join(errs...)
}

func (s *sweeper) request(ctx context.Context, key types.NamespacedName) {
	object := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case s.requests <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

const (
	// maxForeignConsumers bounds the consumers shown by name, those that keep the most events; the events of the others
	// are one sum.
	maxForeignConsumers = 20
	// otherForeignConsumers is not a valid name of a consumer.
	otherForeignConsumers = "(others)"
)

// foreignConsumers monitors consumers without a Subscription: an abandoned one keeps events until the stream is full.
type foreignConsumers struct {
	kept   *prometheus.GaugeVec
	warned map[string]bool // names of consumers that keep events and do not receive them
	log    logr.Logger
}

func newForeignConsumers(registerer prometheus.Registerer, log logr.Logger) *foreignConsumers {
	s := &foreignConsumers{
		kept: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_controller_foreign_consumer_pending_events",
			Help: "Events that a consumer without a Subscription keeps in the stream, as of the last sweep.",
		}, []string{"consumer"}),
		log: log,
	}
	registerer.MustRegister(s.kept)
	return s
}

// show sets the gauge, and warns once of each consumer that keeps events and has no receiver.
func (s *foreignConsumers) show(consumers []broker.Consumer) {
	found := slices.DeleteFunc(broker.ForeignConsumers(consumers), func(c broker.Consumer) bool { return c.Backlog.Total() == 0 })
	slices.SortFunc(found, func(a, b broker.Consumer) int {
		return cmp.Or(cmp.Compare(b.Backlog.Total(), a.Backlog.Total()), cmp.Compare(a.Name, b.Name))
	})
	s.kept.Reset()
	left := map[string]bool{}
	for i, consumer := range found {
		name := consumer.Name
		if i >= maxForeignConsumers {
			name = otherForeignConsumers
		}
		s.kept.WithLabelValues(name).Add(float64(consumer.Backlog.Total()))
		if consumer.Received || i >= maxForeignConsumers {
			continue
		}
		left[consumer.Name] = true
		if !s.warned[consumer.Name] {
			s.log.Info("a consumer without a Subscription keeps events and has no receiver, delete it in NATS if it is unused",
				"consumer", consumer.Name, "description", consumer.Description, "events", consumer.Backlog.Total())
		}
	}
	s.warned = left
}
