package forward

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"github.com/rouse-run/rouse/internal/httplimit"
)

// Backend is where an Exchange sends its request.
type Backend interface {
	// Send sends the request by Transport.Send. It may change the request's header.
	Send(r *http.Request) (*http.Response, error)
	// Answer is called with a response before it is forwarded.
	Answer(answer *http.Response)
	// Refuse responds to a request that got no response.
	Refuse(w http.ResponseWriter, r *http.Request, err error)
}

// Exchange forwards one request as httputil.ReverseProxy does, without a copy of the request. It leaves upgraded connections to
// httputil.ReverseProxy.
type Exchange struct {
	// Head is the account of the response's head. Its owner opens and closes it.
	Head httplimit.HeadAccount

	w       http.ResponseWriter
	streams bool // the request is not sent in one piece

	mu       sync.Mutex
	answered bool // no 1xx response is forwarded any more
}

var errSwitched = errors.New("it switched to a protocol that was not requested")

// Forward sends a request to a backend, and its response to w. The request and its header belong to the exchange, but for its body
// and its trailer. The response's trailer follows its body.
func (x *Exchange) Forward(w http.ResponseWriter, r *http.Request, to Backend) {
	x.w = w
	if r.ContentLength == 0 {
		r.Body = nil
	} else {
		r.Body = &begun{ReadCloser: r.Body}
	}
	if r.Close = false; isUpgrade(r.Header) {
		x.upgrade(r, to)
		return
	}
	x.streams = r.Header["Expect"] != nil
	trailers := slices.ContainsFunc(r.Header["Te"], namesTrailers)
	RemoveHops(r.Header, isForwarding)
	if trailers {
		r.Header["Te"] = []string{"trailers"}
	}
	prepare(r)
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = none // otherwise net/http sends its own
	}
	answer, err := to.Send(r)
	x.end()
	if err != nil {
		to.Refuse(w, r, err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		to.Refuse(w, r, errSwitched)
		return
	}
	RemoveHops(answer.Header, nil)
	to.Answer(answer)
	x.answer(r, answer)
}

var none = []string{""}

// upgrade forwards a request to switch protocols.
func (x *Exchange) upgrade(r *http.Request, to Backend) {
	x.streams = true
	x.end() // the proxy forwards 1xx responses itself
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.RawQuery, p.Out.Host, p.Out.Trailer = p.In.URL.RawQuery, p.In.Host, p.In.Trailer
			for _, name := range ForwardingHeaders {
				if values, ok := p.In.Header[name]; ok {
					p.Out.Header[name] = values
				}
			}
			prepare(p.Out)
		},
		Transport:     roundTripper(to.Send),
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			to.Answer(answer)
			return nil
		},
		ErrorHandler: to.Refuse,
		ErrorLog:     Silent,
		BufferPool:   Buffers,
	}
	proxy.ServeHTTP(x.w, r)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// prepare adds the caller's address. This server sends 100 Continue itself.
func prepare(r *http.Request) {
	delete(r.Header, "Expect")
	AddCaller(r.Header, r.RemoteAddr)
}

// interim forwards a 1xx response. Its own headers are gone afterwards.
func (x *Exchange) interim(code int, header textproto.MIMEHeader) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answered {
		return nil
	}
	to := x.w.Header()
	addAll(to, http.Header(header))
	x.w.WriteHeader(code)
	clear(to)
	return nil
}

// end returns when no 1xx response is being forwarded.
func (x *Exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
}

// answer forwards a response. One that breaks off is aborted.
func (x *Exchange) answer(r *http.Request, answer *http.Response) {
	header := x.w.Header()
	if addAll(header, answer.Header); header["Content-Type"] == nil {
		header["Content-Type"] = nil // otherwise net/http guesses one
	}
	announced := len(answer.Trailer)
	if announced > 0 {
		names := make([]string, 0, announced)
		for name := range answer.Trailer {
			names = append(names, name)
		}
		header.Add("Trailer", strings.Join(names, ", "))
	}
	x.w.WriteHeader(answer.StatusCode)
	if answer.Body != http.NoBody && copyBody(x.w, answer.Body) != nil {
		if r.Context().Value(http.ServerContextKey) == nil { // there is nobody who would recover
			return
		}
		panic(http.ErrAbortHandler)
	}
	if len(answer.Trailer) == 0 {
		return
	}
	_ = http.NewResponseController(x.w).Flush() // otherwise net/http could find the length of a short body, and send no trailer
	if len(answer.Trailer) == announced {
		addAll(header, answer.Trailer)
		return
	}
	for name, values := range answer.Trailer {
		header[http.TrailerPrefix+name] = values
	}
}

// copyBody sends each part of a body at once, as a response may be a stream.
func copyBody(w http.ResponseWriter, body io.Reader) error {
	flusher := http.NewResponseController(w)
	if at, ok := body.(interface{ arrived() bool }); !ok || !at.arrived() {
		_ = flusher.Flush() // the header does not wait for the body
	}
	buffer := Buffers.Get()
	defer Buffers.Put(buffer)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, failed := w.Write(buffer[:n]); failed != nil {
				return failed
			}
			if failed := flusher.Flush(); failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// addAll adds headers in canonical form.
func addAll(to, from http.Header) {
	for name, values := range from {
		if before, ok := to[name]; ok {
			values = slices.Concat(before, values)
		}
		to[name] = values
	}
}

func isUpgrade(header http.Header) bool {
	return header["Upgrade"] != nil && slices.ContainsFunc(header["Connection"], func(value string) bool { return names(value, "Upgrade") })
}

func namesTrailers(value string) bool { return names(value, "trailers") }

// names reports whether a list has a token, in any case.
func names(list, token string) bool {
	for each := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(textproto.TrimString(each), token) {
			return true
		}
	}
	return false
}

// hops are the headers of a connection, as httputil.ReverseProxy has them.
var hops = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// RemoveHops removes the headers of a connection, and the headers that the sender lists in Connection unless keep returns true.
func RemoveHops(header http.Header, keep func(name string) bool) {
	for _, value := range header["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = textproto.TrimString(name); name != "" && (keep == nil || !keep(name)) {
				header.Del(name)
			}
		}
	}
	for _, name := range hops {
		delete(header, name)
	}
}

// Names of forwarding headers.
const (
	HeaderForwardedFor   = "X-Forwarded-For"
	HeaderForwardedHost  = "X-Forwarded-Host"
	HeaderForwardedProto = "X-Forwarded-Proto"
)

// ForwardingHeaders are the headers that record the path of a request. A caller cannot have them removed.
var ForwardingHeaders = []string{"Forwarded", HeaderForwardedFor, HeaderForwardedHost, HeaderForwardedProto}

// isForwarding reports whether a name in any case is a forwarding header.
func isForwarding(name string) bool {
	return slices.ContainsFunc(ForwardingHeaders, func(each string) bool { return strings.EqualFold(name, each) })
}

// AddCaller appends the address of a remote host and port to X-Forwarded-For.
func AddCaller(header http.Header, remote string) {
	if address, _, err := net.SplitHostPort(remote); err == nil {
		header[HeaderForwardedFor] = append(slices.Clone(header[HeaderForwardedFor]), address)
	}
}
