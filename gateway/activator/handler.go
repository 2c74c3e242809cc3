package activator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	healthPath  = "/healthz"
	metricsPath = "/metrics"
)

// Call describes a request that did not arrive at an activator port.
type Call struct {
	// Wait is how long it may wait for a pod; 0: the Function's setting.
	Wait time.Duration
	// Stay keeps the caller's connection while a pod is ready, because nothing else leads callers to the pods.
	Stay bool
}

// Handler serves requests to one Function at its port. uid proves to the controller that it is this Function's.
func (a *Activator) Handler(function types.NamespacedName, uid types.UID) http.Handler {
	call := Call{Stay: a.options.StayOnPath}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && a.reserved(w, r, uid) {
			return
		}
		own := r.WithContext(r.Context())
		own.Header = r.Header.Clone()
		if !a.serve(w, own, function, call) {
			panic(http.ErrAbortHandler) // returning would send 200
		}
	})
}

// reserved serves probes and scrapers without waking the Function.
func (a *Activator) reserved(w http.ResponseWriter, r *http.Request, uid types.UID) bool {
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

// Serve serves a request from outside the cluster, which it may change. Such a caller sees only the Function's responses: endpoints of pods
// that are for the cluster alone are not found. A request whose context ended with the cause context.DeadlineExceeded
// ran out of time: it gets 503 while it waits, and no response once a pod has it, as if its caller had gone.
func (a *Activator) Serve(w http.ResponseWriter, r *http.Request, function types.NamespacedName, call Call) {
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

// serve returns false when no response was sent.
func (a *Activator) serve(w http.ResponseWriter, r *http.Request, name types.NamespacedName, call Call) bool {
	f := a.borrow(name)
	defer a.giveBack(f)
	e := &exchange{all: a, function: f, from: forward.Of(r).Key, stay: call.Stay}
	a.deps.Heads.Open(&e.Head, name.Namespace)
	defer e.finish()
	if f.wait.idle() {
		if refused := e.startWaiting(); refused != nil { // before it is counted, so that it wakes nothing
			e.outcome = refused.outcome
			refused.write(w)
			return true
		}
	}
	e.counted = a.deps.Begin(name)
	defer e.counted.End()
	var known Condition
	if call.Wait <= 0 || !call.Stay { // the call does not say it all
		known = a.deps.Functions.Condition(name)
	}
	e.stay = e.stay || known.Stay
	limit := cmp.Or(max(call.Wait, 0), known.Wait, time.Duration(a.wait.Load()))
	e.began = time.Now()
	e.deadline = e.began.Add(limit)
	return e.forward(w, r)
}

// ranOut reports whether a request ran out of time, rather than lost its caller.
func ranOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.DeadlineExceeded) }

// outcome is how a request ended, a label of its metric.
type outcome string

const (
	served     outcome = "served"
	timedOut   outcome = activation.RefusedTimeout
	overloaded outcome = activation.RefusedOverload
	broken     outcome = "broken"
	clientGone outcome = "client_gone"
	failed     outcome = "failed"
	unfinished outcome = "unfinished" // the request body was not read to its end
)

// refusal is the gateway's error response in place of the Function's.
type refusal struct {
	outcome    outcome
	status     int
	retryAfter time.Duration
	text       string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) write(w http.ResponseWriter) {
	if r.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(r.retryAfter.Seconds())))
	}
	w.Header().Set(activation.HeaderRefused, string(r.outcome))
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, r.text, r.status)
}

// statusClientGone appears only in metrics.
const statusClientGone = 499

func tooSlow(function types.NamespacedName, waited time.Duration, reason string) *refusal {
	if reason == "" {
		reason = "it is still starting"
	}
	return &refusal{
		timedOut, http.StatusServiceUnavailable, 5 * time.Second,
		fmt.Sprintf("Function %s has no pod that takes requests after %s: %s", function, waited.Round(time.Millisecond), reason),
	}
}

func cannotStart(function types.NamespacedName, reason string) *refusal {
	return &refusal{
		broken, http.StatusServiceUnavailable, 30 * time.Second,
		fmt.Sprintf("Function %s does not run: %s", function, reason),
	}
}

func tooMany(function types.NamespacedName, waiting int) *refusal {
	return &refusal{
		overloaded, http.StatusServiceUnavailable, time.Second,
		fmt.Sprintf("Function %s is starting, and %d requests already wait for it", function, waiting),
	}
}

func gone(err error) *refusal { return &refusal{clientGone, statusClientGone, 0, err.Error()} }

func didNotAnswer(function types.NamespacedName, err error) *refusal {
	return &refusal{failed, http.StatusBadGateway, 0, fmt.Sprintf("Function %s did not answer: %s", function, plain(err))}
}

// plain returns an error without the pod's address.
func plain(err error) string {
	if refused := forward.RefusedHead(err); refused != "" {
		return refused
	}
	var at *net.OpError
	if errors.As(err, &at) && at.Err != nil {
		return at.Err.Error()
	}
	return err.Error()
}

// HeaderColdStart is set on the response to a request that waited for a pod, to the milliseconds of the wait.
const HeaderColdStart = "Rouse-Cold-Start"

// dialTimeout is short, because the pod has accepted a connection before.
const dialTimeout = time.Second

// exchange is one request and its response.
type exchange struct {
	forward.Exchange

	all      *Activator
	function *function
	counted  Request
	stay     bool // on the connection
	began    time.Time
	deadline time.Time
	from     httplimit.Key
	waits    bool // and holds a place
	body     *forward.Body

	member   *endpoint.Member[struct{}]
	answered bool          // a pod has begun to answer, or none will
	waited   time.Duration // for a pod; 0 if one was ready
	outcome  outcome
}

// forward forwards the request to a pod. It returns false when no response was sent.
func (e *exchange) forward(w http.ResponseWriter, r *http.Request) bool {
	e.body = forward.NewBody(r, w, e.all.options.BodyTimeout)
	defer e.body.End()
	answer := forward.NewWriter(w)
	answer.Await(e.body)
	if !e.body.Whole() {
		// Bodies flow in both directions concurrently, as without an activator.
		_ = http.NewResponseController(w).EnableFullDuplex()
		r.Body = e.body
	}
	e.Forward(answer, r, e)
	return answer.Code() != 0
}

// Send implements forward.Backend. It sends the request to a pod, and to another one if it cannot connect to the first.
func (e *exchange) Send(r *http.Request) (*http.Response, error) {
	r.Header[activation.HeaderVia] = []string{activation.ViaGateway}
	for {
		member, waited, refused := e.function.acquire(r.Context(), e)
		if refused != nil {
			return nil, refused
		}
		if waited {
			e.waited = time.Since(e.began)
		}
		e.member, e.answered = member, false
		e.counted.Run()
		answer, err := e.all.transport.Send(&e.Exchange, r, member.Address())
		if err == nil {
			return answer, nil
		}
		e.release()
		if !forward.IsDial(err) || r.Context().Err() != nil {
			return nil, err
		}
		e.counted.Wait()
		e.function.pool.Refuse(member)
	}
}

// Answer implements forward.Backend. A pod has begun to answer.
func (e *exchange) Answer(r *http.Response) {
	e.outcome = served
	r.Header.Del(activation.HeaderRefused)
	if e.stay { // the caller of Serve tells it
		r.Header.Del(forward.HeaderServiceTime)
	}
	e.noteAnswer()
	if e.waited >= time.Millisecond { // less is the time of the lookup
		r.Header.Set(HeaderColdStart, strconv.FormatInt(e.waited.Milliseconds(), 10))
	}
	if !e.stay && r.StatusCode != http.StatusSwitchingProtocols && e.function.pool.Ready() {
		r.Header.Set("Connection", "close") // the caller's next request reaches the pods directly
	}
}

// Refuse implements forward.Backend. It responds in place of a pod.
func (e *exchange) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = e.failed(r.Context(), err)
	}
	e.outcome = refused.outcome
	if refused.status == statusClientGone || refused.status == 0 { // the caller is gone, or the caller of Serve responds
		return
	}
	refused.write(w)
}

// failed returns why a request that was sent to a pod got no response.
func (e *exchange) failed(ctx context.Context, err error) *refusal {
	if ranOut(ctx) {
		return &refusal{outcome: failed}
	}
	if status, text := e.body.Failure(); status != 0 {
		return &refusal{unfinished, status, 0, text}
	}
	if ctx.Err() != nil {
		return gone(ctx.Err())
	}
	return didNotAnswer(e.function.name, err)
}

func (e *exchange) noteAnswer() {
	if !e.answered {
		e.answered = true
		e.function.wait.answered()
	}
}

// release releases the pod.
func (e *exchange) release() {
	if e.member == nil {
		return
	}
	e.noteAnswer()
	e.function.pool.Done(e.member)
	e.member = nil
}

// startWaiting takes a place among the waiting requests, which stopWaiting releases.
func (e *exchange) startWaiting() *refusal {
	if e.waits {
		return nil
	}
	refused := e.all.waiting.enter(e.function.name, e.from)
	e.waits = refused == nil
	return refused
}

func (e *exchange) stopWaiting() {
	if e.waits {
		e.waits = false
		e.all.waiting.leave(e.function.name, e.from)
	}
}

// finish is called when the response is complete.
func (e *exchange) finish() {
	e.release()
	e.stopWaiting()
	e.Head.Close()
	if e.outcome == "" {
		e.outcome = failed
	}
	e.all.metrics.finished(e)
	if log := e.function.log.V(1); log.Enabled() {
		log.Info("request ended", "outcome", string(e.outcome), "waited", e.waited.String(), "took", time.Since(e.began).String())
	}
}
