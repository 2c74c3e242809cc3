package apirules

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	accessDenied = "RBAC: access denied"
	tooSlow      = "upstream request timeout"
	notReady     = "The rule for this path is not ready: the status of its APIRule says why"
	tooMany      = "Too many requests for this host, or for its namespace, are being answered"
	// statusClientGone appears only in metrics.
	statusClientGone = 499
)

// exchange is one request and its response.
type exchange struct {
	all     *Server
	began   time.Time
	w       *response
	place   httplimit.Place
	body    *body // of a request that a rule accepts
	outcome outcome
}

// serve finds the rule of a request.
func (x *exchange) serve(r *http.Request) {
	h := x.all.current.Load().find(hostOf(r.Host))
	path, ok := normalPath(r.URL)
	switch {
	case h == nil || !ok || r.Method == http.MethodConnect:
		x.refuse(notFound, http.StatusNotFound, "")
		return
	case strings.Contains(path, "%00"): // no backend needs it, and some end the path there
		x.refuse(denied, http.StatusBadRequest, "")
		return
	case h.isMisdirected(r):
		x.refuse(misdirected, http.StatusMisdirectedRequest, "")
		return
	}
	x.match(h, r, path)
}

// isMisdirected reports whether a connection that was made for another host asked for no certificate, which this one does.
func (h *host) isMisdirected(r *http.Request) bool {
	return h.asks && r.TLS != nil && hostOf(r.TLS.ServerName) != hostOf(r.Host)
}

// match applies the rule of a request.
func (x *exchange) match(h *host, r *http.Request, path string) {
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

// follow applies a rule.
func (x *exchange) follow(h *host, to *rule, r *http.Request, path string) {
	ctx, left := startDeadline(r.Context(), to.timeout)
	defer left.stop()
	defer func() {
		if ranOut(ctx) {
			x.outcome = timedOut
		}
	}()
	out := h.prepare(r.WithContext(ctx), path, to)
	x.body = &body{forward.NewBody(out, x.w, x.all.options.BodyTimeout), left, out.Trailer, to}
	x.w.body = x.body
	if !x.body.Whole() {
		out.Body = x.body
	}
	if to.admits(x, out) {
		x.send(to, out)
	} else if !x.body.Whole() { // the server reads the rest
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
	x.w.asked = x.body.left.remaining()
	switch {
	case to.backend.Door != "" && !x.introduce(out, to.backend.Door):
		x.refuse(closed, http.StatusServiceUnavailable, notReady)
	case to.backend.Door != "" && x.all.deps.Doors != nil:
		x.all.deps.Doors.ServeHTTP(x.w, out)
	case to.backend.Wakes:
		x.all.deps.Activate(x.w, out, to.backend.Service, x.body.left.remaining())
	default:
		x.visit(out, &to.backend)
	}
}

// ranOut reports whether a request ran out of time, rather than lost its caller.
func ranOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.DeadlineExceeded) }

// refuse responds in place of a backend.
func (x *exchange) refuse(why outcome, status int, text string) {
	x.outcome, x.w.asked = why, 0
	header := x.w.Header()
	if text == "" {
		header.Set("Content-Length", "0")
	} else {
		header.Set("Content-Type", "text/plain")
	}
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, text)
}

// finish is called when the response is complete or was cut off.
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

// deadline ends a request's context when its time is over. Its clock stops while the caller's body is awaited.
type deadline struct {
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer
	began   time.Time     // when the clock was last started
	left    time.Duration // when the clock was last started
	running bool
	ended   bool // the clock is not started again
}

func startDeadline(ctx context.Context, timeout time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &deadline{
		cancel: cancel, began: time.Now(), left: timeout, running: true,
		timer: time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) }),
	}
}

// pause stops the clock. A deadline that has passed stays so.
func (d *deadline) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running && d.timer.Stop() {
		d.left -= time.Since(d.began)
	}
	d.running = false
}

func (d *deadline) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.began, d.running = time.Now(), true
		d.timer.Reset(d.left)
	}
}

// remaining returns the time that is left.
func (d *deadline) remaining() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running {
		return d.left
	}
	return d.left - time.Since(d.began)
}

// unlimited removes the deadline.
func (d *deadline) unlimited() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	d.running, d.ended = false, true
}

// stop releases the context's resources at the end of the request.
func (d *deadline) stop() {
	d.unlimited()
	d.cancel(context.Canceled)
}

// body is the request body. While it is awaited, the request's clock stops.
type body struct {
	*forward.Body
	left    *deadline
	trailer http.Header // of the request: the server fills it after the body
	to      *rule
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.left.pause()
	defer b.left.resume()
	n, err := b.Body.Read(p)
	if err != nil {
		removeJudged(b.trailer, b.to)
	}
	return n, err
}

const (
	dialTimeout  = 2 * time.Second
	dialAttempts = 3
	dialPause    = 25 * time.Millisecond

	refusesConnections = "upstream connect error"
	brokeOff           = "upstream disconnected before it answered"
)

// visit is a request to a Service that is not a Function.
type visit struct {
	forward.Exchange

	x       *exchange
	address string
}

// visit serves a request from a Service.
func (x *exchange) visit(r *http.Request, to *apirule.Backend) {
	if !x.body.Whole() { // bodies flow in both directions concurrently
		_ = http.NewResponseController(x.w).EnableFullDuplex()
	}
	v := &visit{x: x, address: serviceAddress(to)}
	x.all.deps.Heads.Open(&v.Head, to.Service.Namespace)
	defer v.Head.Close()
	v.Forward(x.w, r, v)
}

// Send implements forward.Backend. It retries when no connection could be made, so that nothing was sent.
func (v *visit) Send(r *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		answer, err := v.x.all.services.Send(&v.Exchange, r, v.address)
		if err == nil || attempt == dialAttempts || !forward.IsDial(err) || errors.Is(err, dialguard.ErrDenied) {
			return answer, err
		}
		select {
		case <-r.Context().Done():
			return nil, err
		case <-time.After(dialPause):
		}
	}
}

// Answer implements forward.Backend.
func (*visit) Answer(answer *http.Response) { forward.RemoveOwn(answer.Header) }

// Refuse implements forward.Backend.
func (v *visit) Refuse(_ http.ResponseWriter, r *http.Request, err error) { v.x.failed(r, err) }

// failed responds for a Service that did not.
func (x *exchange) failed(r *http.Request, err error) {
	if ranOut(r.Context()) {
		return
	}
	if status, text := x.body.Failure(); status != 0 {
		x.refuse(unfinished, status, text)
		return
	}
	if r.Context().Err() != nil { // the caller has gone
		return
	}
	switch refused := forward.RefusedHead(err); {
	case forward.IsDial(err):
		x.refuse(unreachable, http.StatusServiceUnavailable, refusesConnections)
	case refused != "":
		x.refuse(unreachable, http.StatusBadGateway, refused)
	default:
		x.refuse(unreachable, http.StatusBadGateway, brokeOff)
	}
}

var errNoPod = errors.New("the Service has no pod")

// Endpoints watches the addresses of a Service.
type Endpoints interface {
	// Watch calls apply with the endpoints of the Service's port, at once and after each change, one call at a time, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// pods connects to the pods of Services. The cluster IP of a Service leads wherever its EndpointSlices do, also to pods
// of other namespaces for whoever may write them; Endpoints returns only the Service's own pods.
type pods struct {
	endpoints Endpoints
	guard     dialguard.Guard
}

// serviceAddress returns the address of a Service and its port for dial. Idle connections are stored by it, so that a
// Service never gets those of another one that had its cluster IP before.
func serviceAddress(to *apirule.Backend) string {
	return net.JoinHostPort(to.Service.Name+"."+to.Service.Namespace, strconv.Itoa(int(to.Port)))
}

// dial connects to one of the pods behind an address of serviceAddress, chosen for each connection as a Service does.
func (p *pods) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	pod, err := p.choose(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return p.guard.Dialer(dialTimeout).DialContext(ctx, network, pod)
}

func (p *pods) choose(ctx context.Context, address string) (string, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return "", err
	}
	name, namespace, _ := strings.Cut(host, ".")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all []routing.Endpoint
	err = p.endpoints.Watch(ctx, types.NamespacedName{Namespace: namespace, Name: name}, int32(port), func(current []routing.Endpoint) {
		all = current
		stop()
	})
	if err != nil {
		return "", err
	}
	// As in a Service: if none is ready, a terminating pod may take it.
	usable := slices.DeleteFunc(slices.Clone(all), func(e routing.Endpoint) bool { return !e.Ready || e.Terminating })
	if len(usable) == 0 {
		usable = slices.DeleteFunc(slices.Clone(all), func(e routing.Endpoint) bool { return !e.Terminating })
	}
	if len(usable) == 0 {
		return "", errNoPod
	}
	return usable[rand.IntN(len(usable))].Address, nil //nolint:gosec // not secret
}
