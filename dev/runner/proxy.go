package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
)

// proxy hands requests of a front port to replicas, and wakes the Function for them.
type proxy struct {
	functions *Functions
	name      types.NamespacedName
	transport http.RoundTripper
}

// refusal is why a request does not reach the Function.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// newTransport makes no connection last: one that a replica closes while it ends would lose a request.
func newTransport() http.RoundTripper {
	return &http.Transport{DisableKeepAlives: true, DisableCompression: true}
}

// ServeHTTP answers one request, however long the Function takes to wake.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isLoopback(r.Host) {
		http.Error(w, fmt.Sprintf("this port is for this machine alone and does not answer as %q; use localhost", r.Host), http.StatusForbidden)
		return
	}
	if waker := p.functions.deps.Waker; waker != nil {
		defer waker.Hold(p.name)()
	}
	reverse := httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL.Scheme, out.Out.URL.Host = "http", p.name.Name // the replica is chosen later
			out.Out.Host = out.In.Host
			out.SetXForwarded()
		},
		Transport:     p,
		FlushInterval: -1, // answers may be streams
		ErrorHandler:  p.refuse,
		ErrorLog:      log.New(io.Discard, "", 0), // of clients that went away
	}
	reverse.ServeHTTP(w, r)
}

func (p *proxy) refuse(w http.ResponseWriter, _ *http.Request, err error) {
	var why *refusal
	if !errors.As(err, &why) {
		why = &refusal{http.StatusBadGateway, fmt.Sprintf("Function %s did not answer: %s", p.name, err)}
	}
	http.Error(w, why.text, why.status)
}

// RoundTrip sends a request to a replica that is ready, and to another one when that has just gone.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	wait, cancel := context.WithTimeout(r.Context(), p.functions.options.StartWithin)
	defer cancel()
	for {
		chosen, err := p.functions.borrow(wait, p.name)
		if err != nil {
			return nil, err
		}
		out := r.Clone(r.Context())
		out.URL = &url.URL{
			Scheme: r.URL.Scheme, Host: chosen.process.Address(),
			Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery,
		}
		if r.Body != nil {
			out.Body = io.NopCloser(r.Body) // a failed dial has not read it; the ReverseProxy closes it
		}
		answer, err := p.transport.RoundTrip(out)
		if err != nil {
			p.functions.giveBack(chosen)
			if isDial(err) && wait.Err() == nil {
				p.functions.awaitEnd(wait, chosen)
				continue
			}
			return nil, err
		}
		answer.Body = p.counted(answer.Body, chosen)
		return answer, nil
	}
}

func isDial(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// counted gives the replica back with the end of the answer.
func (p *proxy) counted(body io.ReadCloser, r *replica) io.ReadCloser {
	c := &countedBody{ReadCloser: body, end: func() { p.functions.giveBack(r) }}
	if writer, ok := body.(io.Writer); ok { // an upgraded connection
		return &countedConn{countedBody: c, Writer: writer}
	}
	return c
}

type countedBody struct {
	io.ReadCloser
	end func()
}

// Close closes the answer.
func (c *countedBody) Close() error {
	if c.end != nil {
		c.end()
		c.end = nil
	}
	return c.ReadCloser.Close()
}

type countedConn struct {
	*countedBody
	io.Writer
}
