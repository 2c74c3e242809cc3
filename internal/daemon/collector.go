package daemon

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// The smallest and the largest value for GOGC that is set: the percentage of live memory that may be allocated before a collection.
// Go's default is 100.
const (
	leastGarbage = 75
	mostGarbage  = 400
)

// PaceCollector has garbage collected less often while the process uses little of its memory limit, until ctx ends: a
// collection costs as much processor time with much memory left as with little. It decides after each collection. It is meant for the
// data plane, and does nothing without a memory limit, nor where GOGC is set.
func PaceCollector(ctx context.Context) error {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 && os.Getenv("GOGC") == "" {
		p := &pacer{limit: limit}
		p.decide()
		defer p.ended.Store(true)
	}
	<-ctx.Done()
	return nil
}

// pacer decides after each collection, until it has ended.
type pacer struct {
	limit int64
	set   int
	ended atomic.Bool
}

// collected is garbage at once: its cleanup runs after the next collection.
type collected struct{ _ *pacer }

func (p *pacer) decide() {
	if p.ended.Load() {
		return
	}
	used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(used)
	if percent := garbagePercent(used[0].Value.Uint64()+used[1].Value.Uint64(), p.limit); percent != p.set {
		debug.SetGCPercent(percent)
		p.set = percent
	}
	runtime.AddCleanup(&collected{}, (*pacer).decide, p)
}

// garbagePercent returns the value for GOGC at which live heap, stacks and garbage reach half of the limit before a collection,
// between leastGarbage and mostGarbage. Its steps are wide, since a change stops the process for a moment.
func garbagePercent(used uint64, limit int64) int {
	const step = 25
	if used == 0 {
		return mostGarbage
	}
	percent := 100 * (float64(limit)/2/float64(used) - 1)
	return min(max(int(percent/step)*step, leastGarbage), mostGarbage)
}
