package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
)

// Server is one HTTP listener of a process.
type Server struct {
	Name         string        // in logs and errors, e.g. "ingress"
	Addr         string        // host:port; ignored when Listener is set
	Listener     net.Listener  // for callers that must know the port before they serve
	Handler      http.Handler  // answers the requests
	ReadTimeout  time.Duration // timeout for receiving a request with its body; 30 s when zero
	WriteTimeout time.Duration // timeout for each write of a response; 15 s when zero
	DrainTimeout time.Duration // timeout for requests in progress after the context ends; 10 s when zero

	// ConnContext derives the context of a connection's requests; nil leaves it unchanged. The connection's NetConn
	// method returns the accepted connection.
	ConnContext func(context.Context, net.Conn) context.Context

	// TLS returns the TLS configuration of a connection, or nil for plain text. A nil function disables TLS. HTTP/2 is
	// used if the configuration's NextProtos contain it.
	TLS func(net.Conn) *tls.Config

	MaxConnections int // maximum number of clients; for a further one the slowest is closed; 1024 when zero

	// Shares bound the connections of an address or another key. When several keys exceed theirs, the first Share takes
	// precedence. Without Shares an address may use all connections.
	Shares []Share
	// Full is called when a connection was evicted or refused because of the limit; it may be nil.
	Full func(evicted int, refused bool)
}

const (
	readHeaderTimeout   = 10 * time.Second
	defaultReadTimeout  = 30 * time.Second
	idleTimeout         = 2 * time.Minute
	maxHeaderBytes      = 16 << 10 // includes the attributes of events in headers; net/http adds 4 KiB
	defaultWriteTimeout = 15 * time.Second
	defaultDrainTimeout = 10 * time.Second
)

// Serve listens until ctx ends, then waits at most DrainTimeout for requests in progress. It returns nil after a clean
// drain, and an error when it could not listen or had to cut off requests.
func Serve(ctx context.Context, s Server, log logr.Logger) error {
	if s.Handler == nil { // net/http would serve its default mux, with all handlers that packages registered there
		return fmt.Errorf("%s: there is no handler", s.Name)
	}
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.Addr); err != nil {
			return fmt.Errorf("%s: listen on %s: %w", s.Name, s.Addr, err)
		}
	}
	clients := newConnections(listener, &s)
	var accepting net.Listener = clients
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       cmp.Or(s.ReadTimeout, defaultReadTimeout),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         clients.follow,
		ConnContext:       s.ConnContext,
	}
	if s.TLS != nil {
		secure := newHandshakes(clients, s.TLS)
		defer secure.wait()
		accepting, server.HTTP2, server.ErrorLog = secure, boundedHTTP2(), errorLog(log)
	}
	log.Info("listening", "server", s.Name, "address", listener.Addr().String())

	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(accepting); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s: serve: %w", s.Name, err)
		}
		return nil
	})
	group.Go(func() error {
		<-groupCtx.Done()
		drainCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.DrainTimeout, defaultDrainTimeout))
		defer cancel()
		if err := server.Shutdown(drainCtx); err != nil {
			_ = server.Close()
			return fmt.Errorf("%s: drain: %w", s.Name, err)
		}
		return nil
	})
	return group.Wait()
}

const (
	// maxStreams is the number of concurrent requests of an HTTP/2 connection. net/http counts requests that a client
	// has reset until their handlers return, and closes the connection of a client that continues to send more.
	maxStreams = 100
	// maxBuffer bounds the received bytes of a connection's bodies that no handler has read. It is the smallest
	// possible value.
	maxBuffer = 64 << 10
	maxFrame  = 16 << 10
)

func boundedHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              maxFrame,
		MaxReceiveBufferPerStream:     maxBuffer,
		MaxReceiveBufferPerConnection: maxBuffer,
	}
}

// errorLog drops lines that any client can provoke.
func errorLog(to logr.Logger) *log.Logger { return log.New(panics{to}, "", 0) }

// panics logs only the panics of handlers.
type panics struct{ log logr.Logger }

// Write implements io.Writer.
func (p panics) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) {
		p.log.Info("handler panicked", "text", string(line))
	}
	return len(line), nil
}

// CancelHandler returns the handler with requests that are cancelled when ctx ends. Without it Serve would wait for streams until the
// DrainTimeout is over.
func CancelHandler(ctx context.Context, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requestCtx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		handler.ServeHTTP(w, r.WithContext(requestCtx))
	})
}

// ErrBody means that WithoutBody rejected a request.
var ErrBody = errors.New("body: this request has none; send it without Content-Length and Transfer-Encoding")

// WithoutBody returns ErrBody for a request with a body, whose connection is closed after the response. A handler calls
// it before it removes the read deadline: net/http reads the body before it writes the header of a response, and would
// wait forever.
func WithoutBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // the body is not read; recorders have no deadlines
	return ErrBody
}

const bearer = "Bearer "

// Bearer returns the bearer token in a request's Authorization header, if there is one.
func Bearer(r *http.Request) (token string, ok bool) {
	given := r.Header.Get("Authorization")
	if len(given) < len(bearer) || !strings.EqualFold(given[:len(bearer)], bearer) {
		return "", false
	}
	token = strings.TrimSpace(given[len(bearer):])
	return token, token != ""
}

// HasBearer reports whether a request has the token in its Authorization header. An empty token denies access.
func HasBearer(r *http.Request, token string) bool {
	given, ok := Bearer(r)
	if token == "" || !ok {
		return false
	}
	// Hashes are compared because comparing texts leaks their lengths.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// OnLoopback reports whether the Host header is a loopback address. A web page whose name resolves to this machine (DNS rebinding)
// sends that name.
func OnLoopback(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}
