package buildqueue

import "time"

// Limits bound how much is built at a time.
type Limits struct {
	// Total is how many builds may run in the cluster.
	Total int
	// PerNamespace is how many of them one namespace may have. 0: half of them, rounded up, so that what is left for all
	// others is as much as one can take.
	PerNamespace int
	// Longest is how long one build may take. A slot is not held for longer, whatever the Job says.
	Longest time.Duration
}

// share is how many slots one namespace may hold.
func (l Limits) share() int {
	if l.PerNamespace == 0 {
		return (l.Total + 1) / 2
	}
	return min(l.PerNamespace, l.Total)
}

// holdable is how long a slot may be held: a build's time, and what its Job needs to begin and to end.
func (l Limits) holdable() time.Duration { return l.Longest + 2*startGrace }
