package main

import (
	"slices"
	"time"

	"github.com/rouse-run/rouse/internal/routing"
)

// shape is one load that could make a bridge take memory: requests that it receives, deliveries whose sinks answer in a
// hostile way, or both.
type shape struct {
	name string

	// Requests to the bridge.
	connections int
	request     string // what each of them sends; {n} is another number each time
	to          endpoint
	behaviour   behaviour

	// Deliveries of the bridge.
	tenant tenant

	flags      []string      // of the bridge
	reviewTime time.Duration // how long the API server takes to review a token
}

// endpoint is the server of a bridge that a shape attacks.
type endpoint int

const (
	publishing endpoint = iota
	administering
	measuring
)

// behaviour is how attackers treat answers.
type behaviour int

const (
	readsAnswers   behaviour = iota // they read them
	ignoresAnswers                  // they read none, and send until they cannot
	disconnects                     // they disconnect when they have sent
)

// tenant has Subscriptions to events that wait when the bridge starts. All of them get all events.
type tenant struct {
	subscriptions int
	namespaces    int // that they are spread over; 1 if it is 0
	events        int
	data          string
	answer        string // of their sinks: a name out of answers
	change        func(routing.Route) routing.Route
	takeover      bool // another bridge has had the events, and was killed
}

// shapes are all that are played.
func shapes() []shape { return slices.Concat(publisherShapes(), tenantShapes(), adminShapes()) }

// scaled is the shape with so many percent of its connections, Subscriptions and events.
func (s shape) scaled(percent int) shape {
	for _, n := range []*int{&s.connections, &s.tenant.subscriptions, &s.tenant.events} {
		if *n > 0 {
			*n = max(1, *n*percent/100)
		}
	}
	return s
}
