package scaler

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lookEvery is the pause between two looks at the calls of a Function that
	// has pods, and between two announcements that it is idle. Gateways stay
	// listed for several times as long.
	lookEvery = 3 * time.Second
	// keptInterest is how long a Function is looked at after KEDA last asked.
	keptInterest = time.Minute
)

// watchCalls looks at the calls of the Function while it has pods, and announces
// that it is idle. Calls that a look finds keep KEDA's cooldown from running,
// also where KEDA asks seldom, or asks another replica.
func (f *function) watchCalls(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Jitter(lookEvery, 0.2)):
		}
		if !f.mayFallAsleep() {
			continue
		}
		if _, err := f.look(ctx); err != nil || !f.isIdle() {
			continue
		}
		if err := f.deps.HTTP.Idleness.AnnounceIdle(f.target.function); err != nil {
			f.log.V(1).Info("cannot announce that the function is idle", "reason", err.Error())
		}
	}
}

// mayFallAsleep reports whether there are pods that KEDA may take away.
func (f *function) mayFallAsleep() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.streams > 0 || time.Since(f.askedAt) < keptInterest
	return asked && len(f.endpoints) > 0
}

// isIdle reports whether nothing needs the Function, as far as the last look says.
func (f *function) isIdle() bool {
	backlog, err := f.answer()
	if err != nil || float64(backlog) > f.target.activation {
		return false
	}
	held := f.held()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.demand.Idle(time.Now(), held)
}

// watchListing follows whether callers reach the Function through gateways. Not
// to know means that they do not.
func (f *function) watchListing(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.deps.HTTP.Listings.WatchFunction(ctx, f.target.function, f.setListed)
		if ctx.Err() != nil {
			return
		}
		f.setListed(false)
		f.log.Error(err, "cannot watch whether gateways are listed")
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

func (f *function) setListed(listed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.demand.SetListed(time.Now(), listed)
}
