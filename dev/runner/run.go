package runner

import (
	"context"
	"time"
)

// Run starts and stops what has to be started and stopped until ctx ends. When it returns nothing runs any more.
func (f *Functions) Run(ctx context.Context) error {
	preparing, cancel := context.WithCancel(ctx)
	defer f.activators.Close()
	defer f.running.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if recheckAt := f.step(preparing, time.Now()); !recheckAt.IsZero() {
			timer.Reset(time.Until(recheckAt))
		}
		select {
		case <-ctx.Done():
			f.end()
			return nil
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// step does what is to be done now, and returns when to check again if nothing happens before.
func (f *Functions) step(ctx context.Context, now time.Time) (recheckAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	earlier := func(at time.Time) {
		if !at.IsZero() && (recheckAt.IsZero() || at.Before(recheckAt)) {
			recheckAt = at
		}
	}
	for _, u := range f.sorted() {
		f.serve(u)
		f.prepare(ctx, u)
		earlier(f.settle(u, now))
		p := decide(u.view(now, f.options.StartWithin))
		earlier(p.recheckAt)
		f.act(u, p, now)
		if u.removed && len(u.replicas) == 0 && u.preparation.cancel == nil {
			delete(f.units, u.name)
			f.deps.Feed.Forget(u.name)
		}
	}
	return recheckAt
}

// act does what was decided.
func (f *Functions) act(u *unit, p plan, now time.Time) {
	for _, id := range p.drain {
		f.drain(u, u.replica(id))
	}
	for _, id := range p.abandon {
		f.abandon(u.replica(id))
	}
	for range p.start {
		if err := f.start(u, now); err != nil {
			f.fail(u, placed(u.spec.At, err.Error()))
			break
		}
	}
	if p.start > 0 {
		f.poke() // for the time by which they have to be ready, or of the next try
	}
	if p.start+len(p.drain)+len(p.abandon) > 0 {
		f.announce()
	}
}

// end stops everything, within the time that is left for it.
func (f *Functions) end() {
	f.mu.Lock()
	close(f.over)
	f.version++
	var fronts []*front
	for _, u := range f.units {
		if u.front != nil {
			fronts = append(fronts, u.front)
		}
		for _, r := range u.replicas {
			r.stage = draining
			f.running.Go(func() { r.process.Stop(f.options.EndWithin) })
		}
	}
	f.announce()
	f.mu.Unlock()
	for {
		f.mu.Lock()
		left, change := f.left(), f.change
		f.mu.Unlock()
		if left == 0 {
			break
		}
		<-change
	}
	for _, front := range fronts {
		front.close()
	}
}

// left counts the replicas that are still there; called with the lock held.
func (f *Functions) left() int {
	n := 0
	for _, u := range f.units {
		n += len(u.replicas)
	}
	return n
}
