package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// checkInterval is how often the consumers are checked without a reason.
	checkInterval = 30 * time.Second
	retryInterval = time.Second
)

// errUnknown is the answer before the folder was read.
var errUnknown = errors.New("the Subscriptions are not known yet")

// Streams is where streams are.
type Streams interface {
	EnsureStreamsFor(
		ctx context.Context, options broker.StreamOptions, interested func(ctx context.Context) ([]broker.Consumer, error),
	) error
	DropUnwanted(ctx context.Context, stream string) (uint64, error)
}

// Consumers is where streams and consumers are; *broker.Conn is it.
type Consumers interface {
	Streams
	EnsureConsumer(ctx context.Context, stream string, consumer broker.Consumer) error
	DeleteConsumer(ctx context.Context, stream, name string) error
	Consumers(ctx context.Context, stream string) ([]broker.Consumer, error)
	PurgeRetries(ctx context.Context, subscription types.NamespacedName) error
	OnDeleted(streams []string, deleted func(stream, consumer string)) (stop func(), err error)
}

// subscriptionWorkers serves the Subscriptions that are applied.
type subscriptionWorkers struct {
	consumers Consumers
	streams   broker.StreamOptions
	report    func(subscription types.NamespacedName, err error)
	log       logr.Logger
	renewed   chan struct{} // a note that there is something to do

	mu       sync.Mutex
	wanted   wanted
	known    bool            // the folder was read
	routes   []routing.Route // those that have their consumers
	routed   chan struct{}   // closed and replaced when they change
	settled  chan struct{}   // closed and replaced while what is wanted is not there yet
	opened   chan struct{}   // closed once the streams take events
	reported map[types.NamespacedName]string
}

// newSubscriptions makes Subscriptions that do nothing until Run. What keeps one from being served is reported, nil when it is
// over; the empty name stands for the streams.
func newSubscriptions(
	consumers Consumers, streams broker.StreamOptions, report func(subscription types.NamespacedName, err error), log logr.Logger,
) *subscriptionWorkers {
	return &subscriptionWorkers{
		consumers: consumers, streams: streams, report: report, log: log,
		renewed: make(chan struct{}, 1), routed: make(chan struct{}), settled: make(chan struct{}),
		opened: make(chan struct{}), reported: map[types.NamespacedName]string{},
	}
}

// Apply sets what the folder asks for now.
func (s *subscriptionWorkers) Apply(set manifest.Set, problems []manifest.Problem) {
	s.mu.Lock()
	s.wanted, s.known = want(set, problems, s.wanted.entries), true
	select {
	case <-s.settled:
		s.settled = make(chan struct{})
	default:
	}
	s.mu.Unlock()
	s.Check()
}

// Check has the consumers checked now.
func (s *subscriptionWorkers) Check() {
	select {
	case s.renewed <- struct{}{}:
	default:
	}
}

// Settled is closed once everything that was applied has its consumers.
func (s *subscriptionWorkers) Settled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// Opened is closed once the streams take events, and each Subscription has its consumer or an error that was reported.
func (s *subscriptionWorkers) Opened() <-chan struct{} { return s.opened }

// Run makes and deletes consumers until ctx ends.
func (s *subscriptionWorkers) Run(ctx context.Context) error {
	streams := []string{s.streams.Name, broker.RetryStream, broker.DeadLetterStream}
	stop, err := s.consumers.OnDeleted(streams, func(string, string) { s.Check() })
	if err != nil {
		return fmt.Errorf("listen for deleted consumers: %w", err)
	}
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.renewed:
		case <-timer.C:
		}
		pause := checkInterval
		if err := s.sync(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("streams and consumers are not as they should be", "reason", err.Error())
			pause = retryInterval
		}
		timer.Reset(pause)
	}
}

// sync brings consumers and Subscriptions together.
func (s *subscriptionWorkers) sync(ctx context.Context) error {
	s.mu.Lock()
	w, known := s.wanted, s.known
	s.mu.Unlock()
	if !known {
		return nil
	}
	err := s.consumers.EnsureStreamsFor(ctx, s.streams, w.consumers)
	s.reportChange(ctx, types.NamespacedName{}, err)
	if err != nil {
		return fmt.Errorf("make the streams: %w", err)
	}
	var errs []error
	routes := make([]routing.Route, 0, len(w.entries))
	for _, e := range w.sorted() {
		err := s.ensure(ctx, e.route)
		s.reportChange(ctx, e.route.Subscription, err)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		routes = append(routes, e.route)
	}
	s.publish(routes)
	s.open()
	errs = append(errs, s.sweep(ctx, w))
	if _, err := s.consumers.DropUnwanted(ctx, s.streams.Name); err != nil && ctx.Err() == nil {
		s.log.Info("cannot look for events that no consumer wants", "reason", err.Error())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.settle()
	return nil
}

func (s *subscriptionWorkers) ensure(ctx context.Context, route routing.Route) error {
	err := s.consumers.EnsureConsumer(ctx, s.streams.Name, broker.ConsumerOf(route))
	if route.DeadLetters != nil {
		err = errors.Join(err, s.consumers.EnsureConsumer(ctx, broker.DeadLetterStream, broker.ConsumerOf(*route.DeadLetters)))
	}
	return err
}

// sweep deletes what Subscriptions that are gone have left. Their routes are published no longer.
func (s *subscriptionWorkers) sweep(ctx context.Context, w wanted) error {
	var errs []error
	for _, stream := range []string{s.streams.Name, broker.DeadLetterStream} {
		consumers, err := s.consumers.Consumers(ctx, stream)
		errs = append(errs, err)
		for _, stray := range w.strays(consumers, stream == broker.DeadLetterStream) {
			errs = append(errs, s.consumers.DeleteConsumer(ctx, stream, stray.Name))
			if key, _ := broker.SubscriptionOf(stray); stream == s.streams.Name {
				errs = append(errs, s.consumers.PurgeRetries(ctx, key))
			}
		}
	}
	return errors.Join(errs...)
}

// reportChange reports an error that is new, and nil when it is over.
func (s *subscriptionWorkers) reportChange(ctx context.Context, subscription types.NamespacedName, err error) {
	if ctx.Err() != nil {
		return // the error is but that of the context
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	before := s.reported[subscription]
	s.reported[subscription] = text
	s.mu.Unlock()
	if before != text {
		s.report(subscription, err)
	}
}

func (s *subscriptionWorkers) open() {
	select {
	case <-s.opened:
	default:
		close(s.opened)
	}
}

func (s *subscriptionWorkers) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.renewed) > 0 {
		return // there is more to do
	}
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
}

func (s *subscriptionWorkers) publish(routes []routing.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes = routes
	close(s.routed)
	s.routed = make(chan struct{})
}

// Watch calls apply with all routes that have their consumers, as soon as the folder was read and after each change,
// until ctx ends. It is what the eventbridge and the scaler watch.
func (s *subscriptionWorkers) Watch(ctx context.Context, apply func([]routing.Route)) error {
	for applied := false; ; applied = true {
		s.mu.Lock()
		routes, routed := s.routes, s.routed
		s.mu.Unlock()
		if applied || routes != nil {
			apply(routes)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-routed:
		}
	}
}

// Specs are those of all Subscriptions.
func (s *subscriptionWorkers) Specs(context.Context) ([]eventingv1alpha2.SubscriptionSpec, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return nil, errUnknown
	}
	return s.wanted.specs(), nil
}

// Interest is what all of them together take.
func (s *subscriptionWorkers) Interest() routing.Interest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted.interest
}

// States of a Subscription.
const (
	Preparing = "preparing" // its consumer is not there yet: events that are published now are not kept for it
	Ready     = "ready"
	Paused    = "paused"  // its events are kept
	Failing   = "failing" // it is not served; Message has the reason
)

// SubscriptionStatus is what is known of a Subscription.
type SubscriptionStatus struct {
	Namespace    string                        `json:"namespace"`
	Name         string                        `json:"name"`
	Source       string                        `json:"source"`
	Types        []string                      `json:"types"`
	TypeMatching eventingv1alpha2.TypeMatching `json:"typeMatching,omitempty"`
	Sink         string                        `json:"sink"` // without a login
	State        string                        `json:"state"`
	Message      string                        `json:"message,omitempty"`
}

// SubscriptionStatus lists all Subscriptions by name.
func (s *subscriptionWorkers) Status() []SubscriptionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]SubscriptionStatus, 0, len(s.wanted.entries))
	for _, e := range s.wanted.sorted() {
		name := e.route.Subscription
		list = append(list, SubscriptionStatus{
			Namespace: name.Namespace, Name: name.Name,
			Source: e.spec.Source, Types: e.spec.Types, TypeMatching: e.spec.TypeMatching, Sink: routing.ShownSink(e.spec.Sink),
			State: subscriptionState(e.route, s.served(name), s.reported[name]), Message: s.reported[name],
		})
	}
	return list
}

// served is called with the lock held.
func (s *subscriptionWorkers) served(name types.NamespacedName) bool {
	return slices.ContainsFunc(s.routes, func(r routing.Route) bool { return r.Subscription == name })
}

func subscriptionState(route routing.Route, served bool, trouble string) string {
	switch {
	case trouble != "":
		return Failing
	case !served:
		return Preparing
	case route.Paused:
		return Paused
	default:
		return Ready
	}
}
