package scaler

import "time"

// view is what a stream knows of its Function at one moment.
type view struct {
	active   bool // known to have a backlog above the threshold, or calls
	ready    bool // has a ready endpoint
	restless time.Time
	edge     edge
}

// pacer decides when true is sent on one stream. KEDA acts on true only, does
// not retry an activation that failed, and pays a status patch for each. So true
// goes out at once when the Function turns active or loses its endpoint, is
// repeated until it has an endpoint, and then keeps the cooldown from running.
type pacer struct {
	options PushOptions
	last    time.Time // when true was last sent; zero before the first
	edge    uint64    // the edge that was last sent
	owed    bool      // an edge was held back because a heartbeat was due later
}

// next reports whether true is due now, and if not, how long until it may be. A
// wait of 0 means not before something changes.
func (p *pacer) next(now time.Time, v view) (due bool, wait time.Duration) {
	if !v.active && (!p.owed || !v.ready) {
		p.owed = false
		return false, 0
	}
	if p.last.IsZero() || (!v.ready && v.restless.After(p.last)) {
		return true, 0
	}
	if v.edge.number != p.edge {
		p.owed = true
	}
	period := p.options.Repeat
	if v.ready || now.Sub(v.restless) >= p.options.RepeatFor {
		period = p.options.Heartbeat
	}
	if wait = p.last.Add(period).Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}

// sent records that true was sent.
func (p *pacer) sent(now time.Time, v view) {
	p.last, p.edge, p.owed = now, v.edge.number, false
}
