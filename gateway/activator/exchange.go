package activator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// HeaderColdStart has, in the answer to a request that waited for a pod, for how many milliseconds it did.
const HeaderColdStart = "Rouse-Cold-Start"

const (
	// dialTimeout is short, as the pod has accepted a connection before.
	dialTimeout = time.Second
	// idlePerPod is how many connections are kept to one pod.
	idlePerPod = 64
)

func newTransport(guard dialguard.Guard, fresh bool) *http.Transport {
	return &http.Transport{
		DialContext:            httplimit.CountHeads(guard.Dialer(dialTimeout).DialContext),
		DisableCompression:     true,
		DisableKeepAlives:      fresh,
		MaxIdleConnsPerHost:    idlePerPod,
		IdleConnTimeout:        forward.IdleConnTimeout,
		MaxResponseHeaderBytes: 2 * httplimit.MaxHeadBytes, // connections count
		ForceAttemptHTTP2:      false,
	}
}

// exchange is one request and its answer.
type exchange struct {
	all      *Activators
	function *function
	counted  Request
	stay     bool // on the connection
	began    time.Time
	deadline time.Time
	from     httplimit.Key
	waits    bool        // and has a place
	trailer  http.Header // of the request: the server fills it after the body
	body     *forward.Body
	head     httplimit.HeadAccount

	member   *endpoint.Member[struct{}]
	answered bool          // a pod has begun to, or none will
	waited   time.Duration // for a pod; 0 when there was one
	outcome  outcome
}

// forward answers from a pod. It returns false when nobody has answered.
func (e *exchange) forward(w http.ResponseWriter, r *http.Request) bool {
	// Bodies flow in both directions at once, as without an activator between.
	_ = http.NewResponseController(w).EnableFullDuplex()
	e.body = forward.NewBody(r, w, e.all.options.BodyTimeout)
	defer e.body.End()
	answer := forward.NewWriter(w)
	answer.Await(e.body)
	if !e.body.Whole() {
		r.Body = e.body
	}
	e.trailer = r.Trailer
	proxy := httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      e,
		FlushInterval:  -1, // answers may be streams
		ModifyResponse: e.answer,
		ErrorHandler:   e.refuse,
		ErrorLog:       forward.Silent,
		BufferPool:     forward.Buffers,
	}
	proxy.ServeHTTP(answer, r)
	return answer.Code() != 0
}

// rewrite leaves a request as it came, but for what shows the pod and its handler the way of it.
func rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme, out.URL.Host = "http", "function" // which pod is decided later
	out.URL.RawQuery = r.In.URL.RawQuery
	out.Host = r.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			out.Header[name] = values
		}
	}
	if host, _, err := net.SplitHostPort(r.In.RemoteAddr); err == nil {
		out.Header["X-Forwarded-For"] = append(r.In.Header.Values("X-Forwarded-For"), host)
	}
	out.Header.Del("Expect") // who waits to be asked for a body is asked here, once there is a pod
	out.Header[activation.HeaderVia] = []string{activation.ViaGateway}
}

// RoundTrip sends the request to a pod, and to another one when the connection to that cannot be made.
func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
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
		out := r.Clone(e.head.With(r.Context()))
		out.URL.Host, out.Trailer = member.Address(), e.trailer
		if r.Body != nil {
			out.Body = io.NopCloser(r.Body) // a failed dial has not read it, and must not close it
		}
		answer, err := forward.RoundTrip(e.all.transport, out, &e.head)
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

// answer is called when a pod has begun to answer.
func (e *exchange) answer(r *http.Response) error {
	e.outcome = served
	r.Header.Del(activation.HeaderRefused)
	forward.CleanTrailer(r)
	e.noteAnswer()
	if e.waited >= time.Millisecond { // less is no waiting: its pods have just been looked up
		r.Header.Set(HeaderColdStart, strconv.FormatInt(e.waited.Milliseconds(), 10))
	}
	if !e.stay && r.StatusCode != http.StatusSwitchingProtocols && e.function.pool.Ready() {
		r.Header.Set("Connection", "close") // the caller's next request finds the pods
	}
	return nil
}

// refuse answers in place of a pod.
func (e *exchange) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = e.failed(r.Context(), err)
	}
	e.outcome = refused.outcome
	if refused.status == statusClientGone || refused.status == 0 { // nobody reads it, or the caller of Serve answers
		return
	}
	refused.write(w)
}

// failed is why a request that a pod had got no answer.
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

// release gives the pod back.
func (e *exchange) release() {
	if e.member == nil {
		return
	}
	e.noteAnswer()
	e.function.pool.Done(e.member)
	e.member = nil
}

// startWaiting takes a place among the requests that wait, which stopWaiting leaves.
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

// finish is called when the answer is complete.
func (e *exchange) finish() {
	e.release()
	e.stopWaiting()
	e.head.Close()
	if e.outcome == "" {
		e.outcome = failed
	}
	e.all.metrics.finished(e)
	if log := e.function.log.V(1); log.Enabled() {
		log.Info("request ended", "outcome", string(e.outcome), "waited", e.waited.String(), "took", time.Since(e.began).String())
	}
}
