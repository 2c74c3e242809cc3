package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	// Full is called when further clients have cost others their connections, or were refused; nil: nobody is.
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
