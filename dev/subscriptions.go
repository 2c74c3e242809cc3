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
	// checkInterval is the interval at which consumers are checked without a signal.
	checkInterval = 30 * time.Second
	retryInterval = time.Second
)

// errUnknown is returned before the folder was read.
var errUnknown = errors.New("the folder with the Subscriptions was not read yet")

// Streams manages streams.
type Streams interface {
	EnsureStreamsFor(
		ctx context.Context, options broker.StreamOptions, interested func(ctx context.Context) ([]broker.Consumer, error),
	) error
	DropUnwanted(ctx context.Context, stream string) (uint64, error)
}

// Consumers manages streams and consumers; *broker.Conn implements it.
type Consumers interface {
	Streams
	EnsureConsumer(ctx context.Context, stream string, consumer broker.Consumer) error
	DeleteConsumer(ctx context.Context, stream, name string) error
	Consumers(ctx context.Context, stream string) ([]broker.Consumer, error)
	PurgeRetries(ctx context.Context, subscription types.NamespacedName) error
	OnDeleted(streams []string, deleted func(stream, consumer string)) (stop func(), err error)
}

// subscriptionWorkers gives applied Subscriptions their consumers and publishes their routes.
type subscriptionWorkers struct {
	consumers Consumers
	streams   broker.StreamOptions
	report    func(subscription types.NamespacedName, err error)
	log       logr.Logger
	renewed   chan struct{} // signals work

	mu       sync.Mutex
	wanted   wanted
	known    bool            // the folder was read
	routes   []routing.Route // those that have their consumers
	routed   chan struct{}   // closed and replaced when they change
	settled  chan struct{}   // closed when all consumers exist, replaced when they do not
	opened   chan struct{}   // closed once the streams accept events
	reported map[types.NamespacedName]string
}

// newSubscriptions returns workers that do nothing until Run. They report the error that keeps a Subscription from being served, and nil
// when it is gone; the empty name denotes the streams.
func newSubscriptions(
	consumers Consumers, streams broker.StreamOptions, report func(subscription types.NamespacedName, err error), log logr.Logger,
) *subscriptionWorkers {
	return &subscriptionWorkers{
		consumers: consumers, streams: streams, report: report, log: log,
		renewed: make(chan struct{}, 1), routed: make(chan struct{}), settled: make(chan struct{}),
		opened: make(chan struct{}), reported: map[types.NamespacedName]string{},
	}
}

// Apply sets the Subscriptions of the folder.
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

// Check triggers a check of the consumers.
func (s *subscriptionWorkers) Check() {
	select {
	case s.renewed <- struct{}{}:
	default:
	}
}

// Settled returns a channel that is closed once every applied Subscription has its consumer.
func (s *subscriptionWorkers) Settled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// Opened returns a channel that is closed once the streams accept events, and each Subscription has its consumer or an error that was reported.
func (s *subscriptionWorkers) Opened() <-chan struct{} { return s.opened }

// Run creates and deletes consumers until ctx ends.
func (s *subscriptionWorkers) Run(ctx context.Context) error {
	streams := []string{s.streams.Name, broker.RetryStream, broker.DeadLetterStream}
	stop, err := s.consumers.OnDeleted(streams, func(string, string) { s.Check() })
	if err != nil {
		return fmt.Errorf("watch for deleted consumers: %w", err)
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
			s.log.Info("cannot reconcile streams and consumers", "reason", err.Error())
			pause = retryInterval
		}
		timer.Reset(pause)
	}
}

// sync reconciles streams and consumers with the Subscriptions.
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
		return fmt.Errorf("create the streams: %w", err)
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
		s.log.Info("cannot check for events without a consumer", "reason", err.Error())
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

// sweep deletes the consumers and retries of deleted Subscriptions, whose routes are no longer published.
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

// reportChange reports a new error, and nil when the error is gone.
func (s *subscriptionWorkers) reportChange(ctx context.Context, subscription types.NamespacedName, err error) {
	if ctx.Err() != nil {
		return // the error is the context's
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
		return // more work is pending
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

// Watch calls apply with all routes whose consumers exist, as soon as the folder was read and after each change, until ctx ends. The
// eventbridge and the scaler watch it.
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

// Specs returns the specs of all Subscriptions.
func (s *subscriptionWorkers) Specs(context.Context) ([]eventingv1alpha2.SubscriptionSpec, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return nil, errUnknown
	}
	return s.wanted.specs(), nil
}

// Interest returns the events that any of them matches.
func (s *subscriptionWorkers) Interest() routing.Interest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted.interest
}

// States of a Subscription.
const (
	Preparing = "preparing" // its consumer does not exist yet: events published now are not stored for it
	Ready     = "ready"
	Paused    = "paused"  // its events are stored
	Failing   = "failing" // it is not served; Message has the reason
)

// SubscriptionStatus is the status of a Subscription.
type SubscriptionStatus struct {
	Namespace    string                        `json:"namespace"`
	Name         string                        `json:"name"`
	Source       string                        `json:"source"`
	Types        []string                      `json:"types"`
	TypeMatching eventingv1alpha2.TypeMatching `json:"typeMatching,omitempty"`
	Sink         string                        `json:"sink"` // without credentials
	State        string                        `json:"state"`
	Message      string                        `json:"message,omitempty"`
}

// Status returns all Subscriptions by name.
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

// served reports whether the Subscription is served. The caller holds the lock.
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
