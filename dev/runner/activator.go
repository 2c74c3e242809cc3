package runner

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/workload"
)

// newActivators answer the requests to front ports as the gateways of a cluster answer those to Functions that sleep.
func newActivators(f *Functions) *activator.Activator {
	options := activator.DefaultOptions()
	options.AllowLoopback, options.StayOnPath, options.FreshConnections = true, true, true
	return activator.New(activator.Deps{Endpoints: f, Functions: f, Begin: f.begin, Log: f.deps.Log}, options)
}

// Serve answers a request to a Function that comes by no front port, and waits so long for a replica. Whoever calls it has judged
// the request's host.
func (f *Functions) Serve(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration) {
	f.activators.Serve(w, r, function, activator.Call{Wait: wait, Stay: true})
}

// handler answers the requests to one front port.
func (f *Functions) handler(name types.NamespacedName) http.Handler {
	activator := f.activators.Handler(name, "")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, fmt.Sprintf("this port is for this machine alone and does not answer as %q; use localhost", r.Host), http.StatusForbidden)
			return
		}
		activator.ServeHTTP(w, r)
	})
}

// call is a request that keeps its Function awake until it has ended.
type call struct{ release func() }

func (f *Functions) begin(name types.NamespacedName) activator.Request {
	if f.deps.Waker == nil {
		return call{func() {}}
	}
	return call{f.deps.Waker.Hold(name)}
}

// Run implements activate.Request.
func (c call) Run() {}

// Wait implements activate.Request.
func (c call) Wait() {}

// End implements activate.Request.
func (c call) End() { c.release() }

// Condition is what is known of a Function without a replica that is ready.
func (f *Functions) Condition(name types.NamespacedName) activator.Condition {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := activator.Condition{Wait: f.options.StartWithin, Changed: f.change}
	u := f.units[name]
	switch {
	case f.isOver():
		known.Broken = "the local mode is being stopped"
		return known
	case u == nil || u.removed:
		known.Broken = "there is no such Function any more"
		return known
	}
	known.Broken, known.Reason = u.broken(time.Now()), u.progress()
	if _, given := u.spec.Annotations[v1alpha2.AnnotationHTTPWait]; given {
		if tuning, err := workload.TuningOf(u.spec.Annotations, workload.Tuning{}); err == nil {
			known.Wait = time.Duration(tuning.HTTPWaitSeconds) * time.Second
		}
	}
	return known
}

func (f *Functions) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// broken is why no replica will be ready soon; empty when one is, or may be.
func (u *unit) broken(now time.Time) string {
	for _, r := range u.replicas {
		if r.serves() {
			return ""
		}
	}
	if u.hopeless() || now.Before(u.retryAt) {
		return u.lastError()
	}
	return ""
}

// hopeless reports whether there is no prepared version and no preparation that runs or is due.
func (u *unit) hopeless() bool {
	return u.launch == nil && u.unprepared != "" && u.preparation.cancel == nil && !u.preparation.due
}

// progress is how far a Function is, in one line.
func (u *unit) progress() string {
	status := u.status()
	text := fmt.Sprintf("it is %s, with %d of %d replicas ready", status.Phase, status.Ready, status.Desired)
	if status.LastError != "" {
		short, _, _ := strings.Cut(status.LastError, "\n")
		text += "; " + short
	}
	return text
}
