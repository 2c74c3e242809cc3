package expose

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
	"github.com/rouse-run/rouse/internal/pace"
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
	place   pace.Place
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
	x.w.cors = allowed
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
	controller := http.NewResponseController(x.w)
	// The server's own limit is for the whole of a request, and would end streams. What is read of a body has one of its own.
	_ = controller.SetReadDeadline(time.Time{})
	ctx, left := startDeadline(r.Context(), to.timeout)
	defer left.stop()
	defer func() {
		// The server reads what is left of the body of a request that was not forwarded.
		_ = controller.SetReadDeadline(time.Now().Add(x.all.options.BodyTimeout))
		if ranOut(ctx) {
			x.outcome = timedOut
		}
	}()
	x.w.upgraded = left.unlimited
	out := h.prepare(r.WithContext(ctx), path, to)
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &body{forward.NewBody(out.Body, controller, x.all.options.BodyTimeout), left}
	}
	switch {
	case !to.admits(x, out):
	case to.backend.Function:
		to.rewrite(out)
		x.all.deps.Activate(x.w, out, to.backend.Service, left.remaining())
	default:
		to.rewrite(out)
		x.all.services.forward(x, out, to.backend)
	}
	if x.w.code == 0 && ranOut(ctx) {
		x.refuse(timedOut, http.StatusGatewayTimeout, tooSlow)
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
func (x *exchange) finish(r *http.Request) {
	code := x.w.code
	switch {
	case code == 0 && r.Context().Err() != nil:
		x.outcome, code = clientGone, statusClientGone
	case code == 0: // the server answers so for a handler that writes nothing
		code = http.StatusOK
	}
	if x.outcome == "" {
		x.outcome = served
	}
	x.all.metrics.finished(x.outcome, code, time.Since(x.began))
}
