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
	ReadTimeout  time.Duration // how long a request may take to arrive, body and all; 30 s when zero
	WriteTimeout time.Duration // how long what is written at a time may take to be read; 15 s when zero
	DrainTimeout time.Duration // how long busy requests may take after the context ends; 10 s when zero

	// ConnContext derives the context of a connection's requests; nil leaves it as it is. The connection shows what the listener
	// has accepted with NetConn.
	ConnContext func(context.Context, net.Conn) context.Context

	// TLS says by which configuration a connection is secured; nil, or nil for a connection: not at all. HTTP/2 is spoken where the
	// configuration's NextProtos have it.
	TLS func(net.Conn) *tls.Config

	MaxConnections int // clients at a time, of which the slowest are closed for further ones; 1024 when zero

	// Shares are what one address, or another key, has of the connections. Where several keys have most of those that are waited for, the
	// ones of the first share count. None: an address may have all of them.
	Shares []Share
	// Full is called when a connection was evicted or refused because of the limit; it may be nil.
	Full func(evicted int, refused bool)
}

const (
	readHeaderTimeout   = 10 * time.Second
	defaultReadTimeout  = 30 * time.Second
	idleTimeout         = 2 * time.Minute
	maxHeaderBytes      = 16 << 10 // what events carry as headers counts too; net/http adds 4 KiB
	defaultWriteTimeout = 15 * time.Second
	defaultDrainTimeout = 10 * time.Second
)

// Serve listens until ctx ends, then lets busy requests finish for at most DrainTimeout. It returns nil
// after a clean drain, and an error when it could not listen or had to cut requests off.
func Serve(ctx context.Context, s Server, log logr.Logger) error {
	if s.Handler == nil { // net/http would serve its default mux, with whatever a package registered there
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
	// maxStreams is the number of requests that an HTTP/2 connection has at a time. net/http counts those that a client has reset until their
	// handlers have returned, and ends the connection of a client that goes on to make more.
	maxStreams = 100
	// maxBuffer is what is received of the bodies of a connection that no handler reads: the least that there is.
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

// errorLog leaves out what any client can have net/http write by what it sends.
func errorLog(to logr.Logger) *log.Logger { return log.New(panics{to}, "", 0) }

// panics are those of handlers.
type panics struct{ log logr.Logger }

// Write implements io.Writer.
func (p panics) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) {
		p.log.Info("handler panicked", "text", string(line))
	}
	return len(line), nil
}

// ErrBody means that WithoutBody rejected a request.
var ErrBody = errors.New("body: this request has none; send it without Content-Length and Transfer-Encoding")

// WithoutBody returns ErrBody for a request with a body, whose connection is closed after the answer. A handler calls it before it
// removes the read deadline: net/http waits for a body before it writes the header of an answer, and would wait without an end.
func WithoutBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // nothing is read of it; recorders have no deadlines
	return ErrBody
}

const bearer = "Bearer "

// Bearer is the token in a request's header Authorization. ok is false without one.
func Bearer(r *http.Request) (token string, ok bool) {
	given := r.Header.Get("Authorization")
	if len(given) < len(bearer) || !strings.EqualFold(given[:len(bearer)], bearer) {
		return "", false
	}
	token = strings.TrimSpace(given[len(bearer):])
	return token, token != ""
}

// HasBearer reports whether a request has the token in its header Authorization. An empty token denies access.
func HasBearer(r *http.Request, token string) bool {
	given, ok := Bearer(r)
	if token == "" || !ok {
		return false
	}
	// Hashes, because the comparison of texts leaks their lengths.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
