package dev

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

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
