package main

import (
	"slices"
	"time"

	"github.com/rouse-run/rouse/internal/routing"
)

// shape is one way to make a bridge take memory: by what is sent to it, by what it delivers and how that is answered, or by
// both.
type shape struct {
	name string

	// What is sent.
	connections int
	request     string // what each of them sends; {n} is another number each time
	to          door
	manner      manner

	// What is delivered.
	tenant tenant

	flags []string      // of the bridge
	takes time.Duration // until the API server has said whose a token is
}

// door is the server of a bridge that an attacker knocks at.
type door int

const (
	publishing door = iota
	administering
	measuring
)

// manner is how attackers treat what is answered.
type manner int

const (
	polite manner = iota // it is read
	deaf                 // it is not, and they send until they cannot
	fleet                // they are gone when they have sent
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
func shapes() []shape { return slices.Concat(published(), delivered(), asked()) }

// scaled is the shape with so many percent of its connections, Subscriptions and events.
func (s shape) scaled(percent int) shape {
	for _, n := range []*int{&s.connections, &s.tenant.subscriptions, &s.tenant.events} {
		if *n > 0 {
			*n = max(1, *n*percent/100)
		}
	}
	return s
}
