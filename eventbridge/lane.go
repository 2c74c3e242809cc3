package eventbridge

import (
	"sync/atomic"
	"time"
)

const (
	// share is the part of one processor that a lane may use over time: one of so many.
	share = 4
	// burst is what a lane may use at once after a rest.
	burst = 250 * time.Millisecond
	// trusted is how much work in a row has to be light before it may be done in place.
	trusted = 8
)

// Lane is one source of work.
type Lane struct {
	pool   *FilterPool
	tenant *tenant
	slot   chan struct{} // holds one element while work of the lane waits or runs in Run
	light  atomic.Int32  // work in a row that was light, up to trusted

	paid time.Time // when what was used is paid back; only the holder of the slot touches it
}

// Close takes the lane from its tenant. Nothing may be done in it then.
func (l *Lane) Close() { l.pool.leave(l.tenant) }

// Enter reports whether light work may be done at once. If it may, Leave has to follow.
func (l *Lane) Enter() bool {
	if l.light.Load() < trusted || l.tenant.suspended.Load() {
		return false
	}
	if l.tenant.inPlace.Add(1) > l.pool.inPlace {
		l.tenant.inPlace.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter began, and says whether it was heavy after all.
func (l *Lane) Leave(heavy bool) {
	l.tenant.inPlace.Add(-1)
	if heavy {
		l.light.Store(0)
		l.tenant.suspend()
	}
}

// Run does work on the caller's goroutine once the lane has a permit. The work reports whether it was heavy. The caller may
// stop before it begins, then it is not done.
func (l *Lane) Run(stop <-chan struct{}, work func() (heavy bool)) error {
	select {
	case l.slot <- struct{}{}:
	case <-stop:
		return ErrStopped
	}
	defer func() { <-l.slot }()
	if !l.afford(stop) {
		return ErrStopped
	}
	if err := l.pool.acquire(l.tenant, stop); err != nil {
		return err
	}
	began, heavy := time.Now(), true
	defer func() { // also when it panics
		took := time.Since(began)
		l.pay(began, took)
		l.note(heavy)
		l.pool.finish(l.tenant, took)
	}()
	heavy = work()
	return nil
}

// afford waits until the lane has no more to pay back than a burst. It reports false when the caller stopped first.
func (l *Lane) afford(stop <-chan struct{}) bool {
	wait := time.Until(l.paid.Add(-(share - 1) * burst))
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

func (l *Lane) pay(began time.Time, took time.Duration) {
	if l.paid.Before(began) {
		l.paid = began
	}
	l.paid = l.paid.Add(share * took)
}

func (l *Lane) note(heavy bool) {
	if heavy {
		l.light.Store(0)
	} else if l.light.Load() < trusted {
		l.light.Add(1)
	}
}
