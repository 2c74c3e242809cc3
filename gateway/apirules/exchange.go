package apirules

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	accessDenied = "RBAC: access denied"
	tooSlow      = "upstream request timeout"
	notReady     = "The rule for this path is not ready: the status of its APIRule says why"
	tooMany      = "Too many requests for this host, or for its namespace, are being answered"
	// statusClientGone is in metrics alone: nobody reads it.
	statusClientGone = 499
)

// exchange is one request and its answer.
type exchange struct {
	all     *Exposed
	began   time.Time
	w       *response
	place   httplimit.Place
	body    *body // of a request that a rule takes
	outcome outcome
}

// serve finds the rule of a request.
func (x *exchange) serve(r *http.Request) {
	h := x.all.current.Load().find(hostOf(r.Host))
	path, ok := normalPath(r.URL)
	if h == nil || !ok || r.Method == http.MethodConnect {
		x.refuse(notFound, http.StatusNotFound, "")
		return
	}
	if strings.Contains(path, "%00") { // no backend means it, and some end the path there
		x.refuse(denied, http.StatusBadRequest, "")
		return
	}
	index, answer := apirule.Find(h.routes, v2.Method(r.Method), path)
	if answer == apirule.NotFound {
		x.refuse(notFound, http.StatusNotFound, "")
		return
	}
	allowed := h.cors.allows(r)
	x.w.cors, x.w.varies = allowed, h.cors != nil
	switch {
	case allowed != nil && isPreflight(r):
		allowed.asked = true
		x.refuse(preflight, http.StatusOK, "")
	case answer == apirule.Excluded:
		x.refuse(denied, http.StatusForbidden, accessDenied)
	case h.rules[index].closed:
		x.refuse(closed, http.StatusServiceUnavailable, notReady)
	case !x.enter(h, r):
		x.w.Header().Set("Retry-After", "1")
		x.refuse(overload, http.StatusServiceUnavailable, tooMany)
	default:
		defer x.place.Leave()
		x.follow(h, &h.rules[index], r, path)
	}
}

// follow does what a rule says.
func (x *exchange) follow(h *host, to *rule, r *http.Request, path string) {
	ctx, left := startDeadline(r.Context(), to.timeout)
	defer left.stop()
	defer func() {
		if ranOut(ctx) {
			x.outcome = timedOut
		}
	}()
	x.w.upgraded = left.unlimited
	out := h.prepare(r.WithContext(ctx), path, to)
	x.body = &body{forward.NewBody(out, x.w, x.all.options.BodyTimeout), left, out.Trailer, to}
	if !x.body.Whole() {
		out.Body = x.body
	}
	if to.admits(x, out) {
		x.send(to, out)
	} else if !x.body.Whole() { // the server reads what is left of it
		_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.all.options.BodyTimeout))
	}
	if x.w.Code() == 0 && ranOut(ctx) {
		x.refuse(timedOut, http.StatusGatewayTimeout, tooSlow)
	}
}

// send forwards a request.
func (x *exchange) send(to *rule, out *http.Request) {
	defer x.body.End()
	x.w.Await(x.body.Body)
	to.rewrite(out)
	if to.backend.Function {
		x.all.deps.Activate(x.w, out, to.backend.Service, x.body.left.remaining())
	} else {
		x.all.services.forward(x, out, to.backend)
	}
}

// ranOut reports whether a request has no time left, rather than no caller.
func ranOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.DeadlineExceeded) }

// refuse answers in place of a backend.
func (x *exchange) refuse(why outcome, status int, text string) {
	x.outcome = why
	header := x.w.Header()
	if text == "" {
		header.Set("Content-Length", "0")
	} else {
		header.Set("Content-Type", "text/plain")
	}
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, text)
}

// finish is called when the answer is complete, or has been cut.
func (x *exchange) finish() {
	code := x.w.Code()
	if code == 0 {
		x.outcome, code = clientGone, statusClientGone
	}
	if x.outcome == "" {
		x.outcome = served
	}
	x.all.metrics.finished(x.outcome, code, time.Since(x.began))
}
