package sink

import (
	"net/url"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/routing"
)

// pod is what a sink keeps for each of its addresses.
type pod struct {
	url      url.URL // of the sink at this address
	connPool connPool
}

// closeIdle closes the connections that are kept. Those of addresses that are gone expire.
func (p *pod) closeIdle() { p.connPool.close() }

// newPods makes the pool of a sink's addresses.
func newPods(sink *url.URL, deps Deps) *endpoint.Pool[*pod] {
	options, openness, log := deps.Network.options, deps.Openness, deps.Log
	return endpoint.NewPool(endpoint.Options[*pod]{
		Value: func(address string) *pod {
			p := &pod{url: *sink}
			p.url.Host = address
			return p
		},
		OnGate: func(change endpoint.Change) {
			report(sink, change, log)
			show(openness, change.Open)
		},
		AwaitReady:   options.Endpoints == EndpointsService,
		DialInterval: options.ProbeInterval,
		Dialer:       deps.Network.prober,
	})
}

// report logs that the gate has opened or closed.
func report(sink *url.URL, change endpoint.Change, log logr.Logger) {
	shown := routing.ShownSink(sink.String())
	if change.Open {
		log.Info("gate opened", "sink", shown, "address", change.Address, "waited", change.Waited.String(), "closedFor", change.Lasted.String())
	} else {
		log.Info("gate closed", "sink", shown, "address", change.Address, "openFor", change.Lasted.String())
	}
}

// show sets the openness, if there is one.
func show(openness Openness, open bool) {
	switch {
	case openness == nil:
	case open:
		openness.Set(1)
	default:
		openness.Set(0)
	}
}
