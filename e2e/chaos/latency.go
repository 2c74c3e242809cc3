package main

import (
	"slices"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

// calm is the Subscription whose sink always works: what delays its events is not its own.
const calm = 0

// latency is from when a publisher began with an event until the sink had it, in milliseconds.
type latency struct{ p50, p99 float64 }

func (s *stage) latency() latency {
	var took []time.Duration
	for id, at := range s.journals[calm].first {
		took = append(took, at.Sub(s.events[id].begun))
	}
	slices.Sort(took)
	return latency{p50: rig.Milliseconds(took, 50), p99: rig.Milliseconds(took, 99)}
}
