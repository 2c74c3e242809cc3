package entrance

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// Deps is what an Entrance works with.
type Deps struct {
	// HTTP takes the connections in place of Options.HTTPAddress, for those who have to know the port before; nil: none does.
	HTTP     net.Listener
	Registry prometheus.Registerer
	Log      logr.Logger
}

// Entrance takes the requests of the outside world.
type Entrance struct {
	deps         Deps
	options      Options
	proxies      proxies
	requests     *httplimit.Places // by address
	certificates *certificates
	metrics      *metrics
	listening    atomic.Bool
	handlers     sync.WaitGroup
}

// New makes an Entrance from valid options. It does nothing before Run.
func New(deps Deps, options Options) *Entrance {
	e := &Entrance{
		deps: deps, options: options,
		proxies:      options.TrustedProxies,
		requests:     httplimit.NewPlaces(options.MaxConnections, 0),
		certificates: newCertificates(options.TLSDir, deps.Log),
	}
	e.metrics = newMetrics(deps.Registry, e.certificates, e.requests)
	return e
}

// Ready says why requests are not taken, or nil.
func (e *Entrance) Ready() error {
	if !e.listening.Load() {
		return errors.New("the entrance does not listen")
	}
	return nil
}

// Run has handler answer until ctx ends, and then drains.
func (e *Entrance) Run(ctx context.Context, handler http.Handler) error {
	var following sync.WaitGroup
	defer following.Wait()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if e.options.TLSAddress != "" {
		e.certificates.reload(e.metrics.failures)
		if len(e.certificates.all()) == 0 {
			e.deps.Log.Info("there is no certificate yet: handshakes fail until there is one", "folder", e.options.TLSDir)
		}
		following.Go(func() { e.certificates.follow(serving, e.options.Reload, e.metrics.failures) })
	}
	listener, err := e.listen(ctx)
	if err != nil {
		return err
	}
	e.listening.Store(true)
	defer e.listening.Store(false)
	config := e.certificates.config()
	err = daemon.Serve(ctx, daemon.Server{
		Name:           "entrance",
		Listener:       listener,
		Handler:        e.bounded(handler),
		ConnContext:    withConn,
		WriteTimeout:   e.options.ReadTimeout,
		DrainTimeout:   e.options.DrainTimeout,
		MaxConnections: e.options.MaxConnections,
		Shares:         []daemon.Share{{Of: func(c net.Conn) httplimit.Key { return connOf(c).key }}},
		Full:           func(evicted int, refused bool) { e.metrics.full(whatConnection, evicted, refused) },
		TLS: func(c net.Conn) *tls.Config {
			if from := connOf(c); from != nil && from.secure {
				return config
			}
			return nil
		},
	}, e.deps.Log)
	if err == nil {
		e.awaitHandlers()
	}
	return err
}

// awaitHandlers returns when those of connections that were upgraded have returned: they are no business of the server's any more.
func (e *Entrance) awaitHandlers() {
	returned := make(chan struct{})
	go func() {
		e.handlers.Wait()
		close(returned)
	}()
	select {
	case <-returned:
	case <-time.After(e.options.DrainTimeout):
		e.deps.Log.Info("upgraded connections did not end in time", "running", e.requests.Held())
	}
}
