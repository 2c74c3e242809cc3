package endpoint

import "github.com/rouse-run/rouse/internal/routing"

// reach is what connecting to an address has shown.
type reach int

const (
	untried reach = iota
	accepted
	refused
)

// candidate is what is known of one address.
type candidate struct {
	endpoint routing.Endpoint
	wasReady bool // a readiness probe has passed before
	reach    reach
}

// update takes the news of the watcher. When readiness changes, what earlier connects have shown is stale.
func (c *candidate) update(endpoint routing.Endpoint) {
	if c.endpoint.Ready != endpoint.Ready {
		c.reach = untried
	}
	c.wasReady = c.wasReady || c.endpoint.Ready
	c.endpoint = endpoint
}

// ready reports whether the Service itself leads to the address.
func (c *candidate) ready() bool { return c.endpoint.Ready && !c.endpoint.Terminating }

// usable reports whether requests may be sent to the address.
func (c *candidate) usable() bool {
	if c.endpoint.Terminating || c.reach == refused {
		return false
	}
	return c.endpoint.Ready || c.reach == accepted
}

// worthDialling reports whether connecting may show that the address is usable: it refused although its probe
// passes, or it is a Function's that starts. One that lost its readiness waits for its probe.
func (c *candidate) worthDialling() bool {
	if c.endpoint.Terminating || c.usable() {
		return false
	}
	return c.endpoint.Ready || (c.endpoint.Function && !c.wasReady)
}
