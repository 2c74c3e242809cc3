package apirules

import (
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	dialTimeout    = 2 * time.Second
	idlePerService = 64

	dialAttempts = 3
	dialPause    = 25 * time.Millisecond

	refusesConnections = "upstream connect error"
	brokeOff           = "upstream disconnected before it answered"
)

// services forwards to Services that are no Functions, at their pods.
type services struct {
	transport *http.Transport
}

func newServices(endpoints Endpoints, guard dialguard.Guard) *services {
	return &services{transport: &http.Transport{
		DialContext:            httplimit.CountHeads((&pods{endpoints, guard}).dial),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idlePerService,
		IdleConnTimeout:        forward.IdleConnTimeout,
		MaxResponseHeaderBytes: 2 * httplimit.MaxHeadBytes, // connections count
	}}
}

// forward answers from a Service.
func (s *services) forward(x *exchange, r *http.Request, to apirule.Backend) {
	// Bodies flow in both directions at once.
	_ = http.NewResponseController(x.w).EnableFullDuplex()
	var head httplimit.HeadAccount
	x.all.deps.Heads.Open(&head, to.Service.Namespace)
	defer head.Close()
	address := serviceAddress(&to)
	proxy := httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { toAddress(p, address) },
		Transport:     &dialing{transport: s.transport, trailer: r.Trailer, head: &head},
		FlushInterval: -1, // answers may be streams
		ModifyResponse: func(answer *http.Response) error {
			forward.RemoveOwn(answer.Header)
			forward.CleanTrailer(answer)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) { x.failed(r, err) },
		ErrorLog:     forward.Silent,
		BufferPool:   forward.Buffers,
	}
	proxy.ServeHTTP(x.w, r)
}

// toAddress leaves a request as the rule has made it, but for its way.
func toAddress(p *httputil.ProxyRequest, address string) {
	out := p.Out
	out.URL.Scheme, out.URL.Host, out.URL.RawQuery = "http", address, p.In.URL.RawQuery
	out.Host = p.In.Host
	for _, name := range forwarded {
		if values, ok := p.In.Header[name]; ok {
			out.Header[name] = values
		}
	}
	addHop(out.Header, p.In.RemoteAddr)
	out.Header.Del("Expect") // who waits to be asked for a body is asked here
}

// failed answers for a Service that does not.
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

// dialing tries again when a connection could not be made, so that nothing was sent.
type dialing struct {
	transport http.RoundTripper
	trailer   http.Header // of the request: the server fills it after the body
	head      *httplimit.HeadAccount
}

// RoundTrip implements http.RoundTripper.
func (d *dialing) RoundTrip(r *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		out := r.Clone(d.head.With(r.Context()))
		out.Trailer = d.trailer
		if r.Body != nil {
			out.Body = io.NopCloser(r.Body) // a failed dial has not read it, and must not close it
		}
		answer, err := forward.RoundTrip(d.transport, out, d.head)
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
