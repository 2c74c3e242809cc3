package dev

import (
	"context"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

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
