package runner

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// watchTimeout is how long a replica that has to end waits for watchers to drop it.
const watchTimeout = time.Second

// watcher follows the endpoints of a Service.
type watcher struct {
	service types.NamespacedName
	applied uint64 // the version that apply has returned from
}

// Watch calls apply with the endpoints of a Function's Service, at once and after each change, one call at a time,
// until ctx ends. A replica is among them from when it is ready until it has to end.
func (f *Functions) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	w := &watcher{service: service}
	f.mu.Lock()
	f.watchers[w] = struct{}{}
	f.mu.Unlock()
	defer f.forget(w)
	var before []routing.Endpoint
	for first := true; ; first = false {
		f.mu.Lock()
		endpoints, version, change := f.endpoints(service, port), f.version, f.change
		f.mu.Unlock()
		if first || !slices.Equal(before, endpoints) {
			apply(slices.Clone(endpoints))
			before = endpoints
		}
		f.note(w, version)
		select {
		case <-ctx.Done():
			return nil
		case <-change:
		}
	}
}

// endpoints is called with the lock held.
func (f *Functions) endpoints(service types.NamespacedName, port int32) []routing.Endpoint {
	u := f.units[service]
	if u == nil || port != activation.ServicePort {
		return nil
	}
	var endpoints []routing.Endpoint
	for _, r := range u.replicas {
		if r.serves() {
			endpoints = append(endpoints, routing.Endpoint{Address: r.process.Address(), Ready: true, Function: true})
		}
	}
	return endpoints
}

func (r *replica) serves() bool { return r.stage == ready && !r.givenUp() }

// givenUp reports whether it was killed and is not gone yet.
func (r *replica) givenUp() bool { return r.overdue || r.ended != "" }

// note records that a watcher has applied a version.
func (f *Functions) note(w *watcher, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.applied != version {
		w.applied = version
		f.announceApplied()
	}
}

func (f *Functions) forget(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
	f.announceApplied()
}

func (f *Functions) announceApplied() {
	close(f.applied)
	f.applied = make(chan struct{})
}

// awaitWatchers returns when all who follow a Service have applied a version, or have taken too long.
func (f *Functions) awaitWatchers(service types.NamespacedName, version uint64) {
	timer := time.NewTimer(watchTimeout)
	defer timer.Stop()
	for {
		f.mu.Lock()
		behind, applied := false, f.applied
		for w := range f.watchers {
			behind = behind || (w.service == service && w.applied < version)
		}
		f.mu.Unlock()
		if !behind {
			return
		}
		select {
		case <-applied:
		case <-timer.C:
			return
		case <-f.over:
			return
		}
	}
}
