package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	namespace   = "chaos"
	source      = "chaos"
	maxInFlight = 20
	// keyAttribute keeps the events of an ordered Subscription in order.
	keyAttribute = "key"
)

// behaviour is what a sink does until it is healed.
type behaviour struct {
	name        string
	fail        int           // percent of the deliveries that get 500
	hang        int           // percent of the deliveries that get no answer
	refuseEvery int           // one in so many events gets 422, always
	slow        time.Duration // what an answer takes at most
	restarts    bool
	keys        int              // values of the attribute that keeps events in order, 0 for no order
	delivery    routing.Delivery // of the Subscription
}

// scenario has one Subscription for each behaviour. The events go to them in turn.
func scenario() []behaviour {
	return []behaviour{
		{name: "well"},
		{name: "failing", fail: 20},
		{name: "hanging", hang: 1, delivery: routing.Delivery{Timeout: 2 * time.Second}},
		{name: "restarting", restarts: true},
		{name: "refusing", refuseEvery: 50},
		{name: "impatient", fail: 20, delivery: routing.Delivery{MaxAttempts: 2, Backoff: routing.Backoff{Delay: 100 * time.Millisecond}}},
		{name: "ordered", fail: 10, slow: 50 * time.Millisecond, keys: 16, delivery: routing.Delivery{OrderedBy: keyAttribute, MaxAttempts: 1000}},
	}
}

func (b behaviour) eventType() string { return b.name + ".v1" }

func (b behaviour) route() routing.Route {
	route := rig.Route(namespace, b.name, source, b.eventType(), maxInFlight)
	route.Delivery = b.delivery
	return route
}

func (b behaviour) arguments(port int, journal string) []string {
	return []string{
		"-port", strconv.Itoa(port), "-journal", journal, "-fail", strconv.Itoa(b.fail),
		"-hang", strconv.Itoa(b.hang), "-refuse-every", strconv.Itoa(b.refuseEvery), "-slow", b.slow.String(),
	}
}

// bridgeFlags make a bridge that was killed and sinks that failed cost seconds instead of minutes.
func bridgeFlags() []string {
	return []string{fmt.Sprintf("--delivery-ack-wait=%s", ackWait), "--delivery-backoff=100ms", "--delivery-backoff-max=2s"}
}

const ackWait = 5 * time.Second
