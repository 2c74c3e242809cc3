package scaler

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Wants takes notice of how many replicas the work of Functions needs.
type Wants interface {
	// AnnounceWanted has replicas added that neither KEDA nor the HPA has added yet.
	AnnounceWanted(function types.NamespacedName, replicas int) error
}

const (
	// wantedFor is how long wanted replicas are announced after a Function turned
	// active. KEDA makes the first one, and the HPA reads the metrics every 15 s.
	wantedFor = 20 * time.Second
	// wantedEvery is the pause between two announcements, each after a reading.
	wantedEvery = time.Second
)

// carries is what a trigger wants a replica to carry; 0 where it leaves that open.
type carries struct{ lag, concurrency float64 }

// replicas returns how many a backlog and calls over HTTP need, 0 without either.
// It divides as the HPA does, without its tolerance.
func (c carries) replicas(backlog, calls uint64) int {
	wanted := 0.0
	if c.lag > 0 {
		wanted = math.Ceil(float64(backlog) / c.lag)
	}
	if c.concurrency > 0 {
		wanted = max(wanted, math.Ceil(float64(calls)/c.concurrency))
	}
	return int(min(wanted, math.MaxInt32))
}

// announceWanted announces how many replicas the Function needs while it wakes,
// if one does not do or there is none.
func (f *function) announceWanted() {
	if f.deps.Wants == nil {
		return
	}
	held := f.held()
	each := carries{}
	each.lag, _ = f.lagThreshold()
	f.mu.Lock()
	if f.carries.lag > 0 {
		each.lag = f.carries.lag
	}
	each.concurrency = f.carries.concurrency
	backlog := uint64(0)
	if f.activity.phase == phaseActive {
		backlog = f.activity.backlog
	}
	wanted := each.replicas(backlog, held)
	wakes := f.activity.edge.number > 0 && time.Since(f.activity.edge.at) < wantedFor
	f.wanting = wakes && (wanted > 1 || wanted == 1 && !f.ready)
	announced := f.wanting
	f.mu.Unlock()
	if !announced {
		return
	}
	if err := f.deps.Wants.AnnounceWanted(f.target.function, wanted); err != nil {
		f.log.V(1).Info("cannot announce the replicas that the function needs", "reason", err.Error())
	}
}
