package scaler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

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
