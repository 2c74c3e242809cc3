package scaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// shortestPause parts two readings that publishes or changes ask for.
const shortestPause = 50 * time.Millisecond

// readsAtOnce bounds how many consumers of one Function are read at a time.
const readsAtOnce = 4

// refresh reads the backlog once. While there is none, the listener comes
// first, so that a message is either received by it or counted.
func (f *function) refresh(ctx context.Context, routes []routing.Route) {
	listening := f.listening()
	if !listening && f.sleeps() {
		listening = f.listen(routes)
	}
	began := time.Now()
	found, err := f.read(ctx, routes)
	if err == nil && !listening && f.fallsAsleep(began, found.total) && f.listen(routes) {
		began = time.Now()
		found, err = f.read(ctx, routes)
	}
	if ctx.Err() == nil {
		f.commit(began, found, err)
	}
}

// work is what one reading found.
type work struct {
	total    uint64 // the backlog
	inFlight uint64 // the part of it that pods may have
}

// read sums the backlog of all consumers, and the calls that have left them while
// they go on. What cannot be read leaves the sum unknown; a consumer that does not
// exist yet has nothing waiting.
func (f *function) read(ctx context.Context, routes []routing.Route) (work, error) {
	ctx, cancel := context.WithTimeout(ctx, f.options.Refresh.Timeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	awake := f.mayRun()
	var total, inFlight atomic.Uint64
	for _, route := range routes {
		group.Go(func() error {
			backlog, err := f.deps.Backlogs.Backlog(ctx, f.stream(route), route.Consumer)
			if err != nil && !errors.Is(err, broker.ErrConsumerNotFound) {
				return fmt.Errorf("read backlog of subscription %s: %w", route.Subscription, err)
			}
			total.Add(backlog.Total())
			inFlight.Add(backlog.AckPending)
			if !awake || route.OfDeadLetters {
				return nil
			}
			// After the backlog: a call that is detached in between counts twice and not never.
			calls, err := f.deps.Backlogs.DetachedCallsOf(ctx, route.Subscription)
			total.Add(calls)
			inFlight.Add(calls)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return work{}, err
	}
	return work{total: total.Load(), inFlight: inFlight.Load()}, nil
}

// stream holds what the route delivers.
func (f *function) stream(route routing.Route) string {
	if route.OfDeadLetters {
		return broker.DeadLetterStream
	}
	return f.options.Stream
}

// commit makes a reading the state that streams and calls see.
func (f *function) commit(began time.Time, found work, err error) {
	f.mu.Lock()
	healthy := f.activity.failure == nil
	if err != nil {
		f.activity.failed(err)
	} else {
		f.inFlight = found.inFlight
		if f.activity.read(began, found.total, f.options.Refresh.WakeGrace) {
			f.turned()
		}
	}
	f.answered()
	f.mu.Unlock()

	switch {
	case err != nil:
		f.metrics.refreshErrors.Inc()
		if healthy {
			f.log.Error(err, "backlog cannot be read")
		}
	case !healthy:
		f.log.Info("backlog can be read again")
	}
	if log := f.log.V(1); err == nil && log.Enabled() {
		log.Info("backlog read", "events", found.total, "inFlight", found.inFlight, "took", time.Since(began).String())
	}
}

// turned follows a change between idle and active. The lock must be held.
func (f *function) turned() {
	f.starting = !f.ready && (f.activity.phase == phaseActive || f.demand.Active(time.Now(), 0))
	f.broadcast()
}

// interval is the pause until the next reading. Only a Function that is known
// to sleep and that a publish would wake is read at leisure.
func (f *function) interval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.activity.provisional() && f.activity.failure == nil {
		settled := time.Until(f.activity.woken.Add(f.options.Refresh.WakeGrace))
		return min(f.options.Refresh.ActiveInterval, max(settled, shortestPause))
	}
	if f.wanting && f.activity.failure == nil {
		return min(f.options.Refresh.ActiveInterval, wantedEvery)
	}
	notListening := f.listener == nil && len(f.counted) > 0
	// A message that was in flight while the listener was being placed may
	// show in the next reading only.
	fresh := f.listener != nil && time.Since(f.listener.at) < f.options.Refresh.WakeGrace
	if f.activity.phase != phaseIdle || f.activity.failure != nil || notListening || fresh {
		return f.options.Refresh.ActiveInterval
	}
	return wait.Jitter(f.options.Refresh.IdleInterval, 1)
}

// sleeps reports whether a publish should wake the Function.
func (f *function) sleeps() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.activity.phase != phaseActive
}

// mayRun reports whether calls may run in the Function. Where nothing waits since
// it was read last none has begun, so that a Function that sleeps costs one request.
func (f *function) mayRun() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.activity.phase != phaseIdle
}

// fallsAsleep reports whether the reading would make the Function idle.
func (f *function) fallsAsleep(began time.Time, backlog uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.activity.idle(began, backlog, f.options.Refresh.WakeGrace)
}

// age is that of the newest evidence, 0 while there is none.
func (f *function) age(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.activity.seen.IsZero() {
		return 0
	}
	return now.Sub(f.activity.seen)
}

const (
	// podReadingAge is how long a reading of pods is an answer: one poll of KEDA's asks for it several times.
	podReadingAge = time.Second
	// podReadingLimit bounds a reading, so that what it found is still in time for a call's answer.
	podReadingLimit = 800 * time.Millisecond
)

// podReadings are the newest reading of a Function's pods. Its zero value is
// ready to use.
type podReadings struct {
	mu     sync.Mutex
	newest *podReading
}

type podReading struct {
	of    []routing.Endpoint
	began time.Time
	done  chan struct{} // closed when the answer is there
	loads map[string]activation.PodLoad
	err   error
}

// read returns what the endpoints answer. Callers that come together share a
// reading, which goes on when one of them has left.
func (r *podReadings) read(
	ctx context.Context, endpoints []routing.Endpoint, ask func(context.Context, []routing.Endpoint) (map[string]activation.PodLoad, error),
) (map[string]activation.PodLoad, error) {
	reading := r.current(endpoints, func(reading *podReading) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), podReadingLimit)
		defer cancel()
		reading.loads, reading.err = ask(ctx, endpoints)
		close(reading.done)
	})
	select {
	case <-reading.done:
		return reading.loads, reading.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// current begins a reading unless there is one that will do.
func (r *podReadings) current(endpoints []routing.Endpoint, begin func(*podReading)) *podReading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest == nil || time.Since(r.newest.began) >= podReadingAge || !slices.Equal(r.newest.of, endpoints) {
		r.newest = &podReading{of: endpoints, began: time.Now(), done: make(chan struct{})}
		go begin(r.newest)
	}
	return r.newest
}

// readPods asks the pods, and counts and logs failures.
func (f *function) readPods(ctx context.Context, endpoints []routing.Endpoint) (map[string]activation.PodLoad, error) {
	loads, err := f.deps.HTTP.Pods.Loads(ctx, f.target.function.Namespace, endpoints)
	f.mu.Lock()
	healthy := !f.podsFail
	f.podsFail = err != nil
	f.mu.Unlock()
	switch {
	case err != nil:
		f.metrics.podLoadErrors.Inc()
		if healthy {
			f.log.Error(err, "calls of pods cannot be read")
		}
	case !healthy:
		f.log.Info("calls of pods can be read again")
	}
	return loads, err
}
