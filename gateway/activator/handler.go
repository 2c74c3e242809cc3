package activator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/activation"
)

const (
	healthPath  = "/healthz"
	metricsPath = "/metrics"
)

// Call is how a request is served that comes by no port of an activator.
type Call struct {
	// Wait is how long it may wait for a pod; 0: as long as the Function says.
	Wait time.Duration
	// Stay keeps the caller's connection while a pod is ready, as nothing else leads callers to the pods.
	Stay bool
}

// Handler answers the requests to one Function at its port. uid shows the controller that it is this one.
func (a *Activators) Handler(function types.NamespacedName, uid types.UID) http.Handler {
	call := Call{Stay: a.options.StayOnPath}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && a.reserved(w, r, uid) {
			return
		}
		if !a.serve(w, r, function, call) {
			panic(http.ErrAbortHandler) // who returns answers 200
		}
	})
}

// reserved answers what probes and scrapers ask, and wakes nobody for them.
func (a *Activators) reserved(w http.ResponseWriter, r *http.Request, uid types.UID) bool {
	switch r.URL.Path {
	case healthPath:
		healthy(w, uid)
	case metricsPath, activation.LoadPath:
		http.Error(w, "an activator answers, which has no metrics of the Function: ask its pods", http.StatusServiceUnavailable)
	default:
		return false
	}
	return true
}

func healthy(w http.ResponseWriter, uid types.UID) {
	if uid != "" {
		w.Header().Set(activation.HeaderFunction, string(uid))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("OK"))
}

// Serve answers a request from outside the cluster, who learns nothing of a Function but its answers: what pods tell to others of the
// cluster alone is not found. A request whose context has ended with the cause context.DeadlineExceeded had no time left: while it
// waited it gets 503 as others do, and is not answered when a pod has it. Nor is one whose caller has gone.
func (a *Activators) Serve(w http.ResponseWriter, r *http.Request, function types.NamespacedName, call Call) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.URL.Path == activation.LoadPath, r.URL.Path == metricsPath && reads:
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Path == healthPath && reads:
		healthy(w, "")
	default:
		a.serve(w, r, function, call)
	}
}

// serve returns false when nobody has answered.
func (a *Activators) serve(w http.ResponseWriter, r *http.Request, name types.NamespacedName, call Call) bool {
	f := a.borrow(name)
	defer a.giveBack(f)
	e := &exchange{all: a, function: f, from: forward.Of(r).Key, stay: call.Stay}
	a.deps.Heads.Open(&e.head, name.Namespace)
	defer e.finish()
	if f.wait.idle() {
		if refused := e.startWaiting(); refused != nil { // before it counts: it wakes nobody
			e.outcome = refused.outcome
			refused.write(w)
			return true
		}
	}
	e.counted = a.deps.Begin(name)
	defer e.counted.End()
	limit := call.Wait
	if limit <= 0 {
		limit = a.deps.Functions.Condition(name).Wait
	}
	if limit <= 0 {
		limit = time.Duration(a.wait.Load())
	}
	e.began = time.Now()
	e.deadline = e.began.Add(limit)
	return e.forward(w, r)
}

// ranOut reports whether a request has no time left, rather than no caller.
func ranOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.DeadlineExceeded) }
