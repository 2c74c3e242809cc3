package scaler

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

// Wants takes notice of how many replicas the work of Functions needs.
type Wants interface {
	// AnnounceWanted has replicas added that neither KEDA nor the HPA has added yet.
	AnnounceWanted(function types.NamespacedName, replicas int) error
}

// Wakes takes notice of how wakes went.
type Wakes interface {
	// AnnounceWoken takes what activation.Wake encodes to.
	AnnounceWoken(function types.NamespacedName, course []byte) error
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

// stages are when a wake reached its stages. What was before the edge belongs to another one.
type stages struct{ sent, addressed time.Time }

// courseOf is the course of a wake from zero that has just ended.
func courseOf(begin edge, reached stages, now time.Time) activation.Wake {
	since := func(at time.Time) int64 {
		if at.Before(begin.at) {
			return 0
		}
		return max(at.Sub(begin.at).Milliseconds(), 1) // 0 means that it was not seen
	}
	return activation.Wake{
		Cause: string(begin.cause), Began: begin.at, SentMS: since(reached.sent), AddressedMS: since(reached.addressed), ReadyMS: since(now),
	}
}

// announceWoken tells how a wake went.
func (f *function) announceWoken(course activation.Wake) {
	if f.deps.Wakes == nil {
		return
	}
	text, err := course.Encode()
	if err == nil {
		err = f.deps.Wakes.AnnounceWoken(f.target.function, text)
	}
	if err != nil {
		f.log.V(1).Info("cannot announce how the function woke", "reason", err.Error())
	}
}
