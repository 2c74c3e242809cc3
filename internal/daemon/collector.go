package daemon

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// mostGarbage is the largest percentage of live memory that may be allocated before a collection.
	mostGarbage = 400
	// pacePeriod is the interval of the decision. Memory that grows faster is bounded by the memory limit.
	pacePeriod = time.Second
)

// PaceCollector has garbage collected less often while the process uses little of its memory limit, until ctx ends: a
// collection costs as much processor time with much memory left as with little. It does nothing without a memory limit, nor
// where GOGC is set.
func PaceCollector(ctx context.Context) {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 || os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(pacePeriod)
	defer ticker.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for set := defaultGarbage; ; {
		metrics.Read(live)
		if percent := garbagePercent(live[0].Value.Uint64(), limit); percent != set {
			debug.SetGCPercent(percent)
			set = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// defaultGarbage is Go's default for GOGC.
const defaultGarbage = 100

// garbagePercent returns the value for GOGC at which the heap reaches half of the limit before a collection, between Go's
// default and mostGarbage. Its steps are wide, since a change stops the process for a moment.
func garbagePercent(live uint64, limit int64) int {
	const step = 50
	if live == 0 {
		return mostGarbage
	}
	percent := 100 * (float64(limit)/2/float64(live) - 1)
	return min(max(int(percent/step)*step, defaultGarbage), mostGarbage)
}
