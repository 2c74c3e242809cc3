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
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// Deps are the dependencies of an Entrance.
type Deps struct {
	// HTTP replaces Options.HTTPAddress, for callers that need to know the port in advance; may be nil.
	HTTP net.Listener
	// AsksCertificate reports whether clients of a host are asked for a certificate; nil: none are.
	AsksCertificate func(serverName string) bool
	Registry        prometheus.Registerer
	Log             logr.Logger
}

// Entrance accepts requests from outside of the cluster.
type Entrance struct {
	deps         Deps
	options      Options
	proxies      proxies
	requests     *httplimit.Places // by client address
	certificates *certificates
	metrics      *metrics
	listening    atomic.Bool
	handlers     sync.WaitGroup
}

// New returns an Entrance for valid options. It does nothing before Run.
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

// Ready returns why requests are not accepted, or nil.
func (e *Entrance) Ready() error {
	if !e.listening.Load() {
		return errors.New("the entrance does not listen")
	}
	return nil
}

// Run serves handler until ctx ends, and then drains.
func (e *Entrance) Run(ctx context.Context, handler http.Handler) error {
	var following sync.WaitGroup
	defer following.Wait()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if e.options.TLSAddress != "" {
		e.certificates.reload(e.metrics.failures)
		if len(e.certificates.all()) == 0 {
			e.deps.Log.Info("there is no certificate yet, TLS handshakes fail", "folder", e.options.TLSDir)
		}
		following.Go(func() { e.certificates.follow(serving, e.options.Reload, e.metrics.failures) })
	}
	listener, err := e.listen(ctx)
	if err != nil {
		return err
	}
	e.listening.Store(true)
	defer e.listening.Store(false)
	config := e.certificates.config(e.deps.AsksCertificate)
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

// awaitHandlers returns when the handlers of upgraded connections have returned: the server does not track them.
func (e *Entrance) awaitHandlers() {
	returned := make(chan struct{})
	go func() {
		e.handlers.Wait()
		close(returned)
	}()
	select {
	case <-returned:
	case <-time.After(e.options.DrainTimeout):
		e.deps.Log.Info("drain timed out, cutting upgraded connections", "running", e.requests.Held())
	}
}

type connKey struct{}

// withConn stores the connection of a request in the context.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// bounded applies the bounds of a request and removes headers that a client must not set.
func (e *Entrance) bounded(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := r.Context().Value(connKey{}).(*conn)
		if from == nil {
			http.Error(w, "the request has no connection", http.StatusInternalServerError)
			return
		}
		if r.Method == "PRI" { // net/http passes the HTTP/2 preface to handlers on cleartext connections
			w.Header().Set("Connection", "close")
			http.Error(w, "HTTP/2 is spoken over TLS alone", http.StatusBadRequest)
			return
		}
		client, ok := e.begin(w, r, from)
		if !ok {
			w.Header().Set("Retry-After", "1")
			w.Header().Set(activation.HeaderRefused, activation.RefusedOverload)
			http.Error(w, "too many requests of this address, or of all, are being answered", http.StatusServiceUnavailable)
			return
		}
		defer client.end()
		e.handlers.Add(1)
		defer e.handlers.Done()
		w = &measuredWriter{w, client}
		// The server's own timeout covers the whole request, and would end streams.
		if r.ContentLength == 0 {
			_ = client.setReadDeadline(time.Time{})
		} else {
			limited := newBody(r, client, e.options.BodyTimeout, e.options.ReadTimeout)
			defer limited.finish()
			r.Body, w = limited, &limitedWriter{w, limited}
		}
		if r.ProtoMajor > 1 {
			stream := newStreamWriter(w, e.options.ReadTimeout)
			defer stream.finish()
			w = stream
		}
		cleanHeaders(r.Header, from.key.Unshared, from.secure)
		handler.ServeHTTP(w, r.WithContext(forward.With(r.Context(), &client.caller)))
	})
}

// begin gives a request a place, if need be by evicting a slower one.
func (e *Entrance) begin(w http.ResponseWriter, r *http.Request, from *conn) (*request, bool) {
	client := &request{from: from, http1: r.ProtoMajor == 1, controller: http.NewResponseController(w)}
	client.caller = forward.Caller{Client: client, Key: from.key}
	if from.key.Unshared {
		client.caller.Key = e.proxies.clientOf(r.Header, from.key)
	}
	ok, evicted := e.requests.Take(&client.Place, client, client.caller.Key)
	e.metrics.full(whatRequest, evicted, !ok)
	if ok && !client.http1 {
		from.add(client)
	}
	return client, ok
}

// What clients have a share of: the label of refused and evicted.
const (
	whatConnection = "connection"
	whatRequest    = "request"
)

type metrics struct {
	refused  *prometheus.CounterVec
	evicted  *prometheus.CounterVec
	failures prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, certificates *certificates, requests *httplimit.Places) *metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_gateway_entrance_requests", Help: "Requests from outside that are being answered.",
	}, func() float64 { return float64(requests.Held()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_gateway_tls_certificates", Help: "Certificates that are served.",
	}, func() float64 { return float64(len(certificates.all())) })
	registerer.MustRegister(expiries{certificates})
	m := &metrics{
		refused: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_entrance_refused_total", Help: "Connections and requests from outside that exceeded the bound of an address or of all.",
		}, []string{"what"}),
		evicted: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_entrance_evicted_total", Help: "Connections and requests of the slowest clients that were ended to make room for further ones.",
		}, []string{"what"}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_tls_failed_reloads_total", Help: "Invalid certificates, each counted once.",
		}),
	}
	for _, what := range []string{whatConnection, whatRequest} {
		m.refused.WithLabelValues(what)
		m.evicted.WithLabelValues(what)
	}
	return m
}

// full counts refused and evicted clients.
func (m *metrics) full(what string, evicted int, refused bool) {
	if evicted > 0 {
		m.evicted.WithLabelValues(what).Add(float64(evicted))
	}
	if refused {
		m.refused.WithLabelValues(what).Inc()
	}
}

// expiries exports the expiry of each certificate. The operator bounds their number.
type expiries struct{ of *certificates }

var expiry = prometheus.NewDesc("rouse_gateway_tls_certificate_expiry_timestamp_seconds", "When a certificate that is served ends.", []string{"folder"}, nil)

// Describe implements prometheus.Collector.
func (e expiries) Describe(to chan<- *prometheus.Desc) { to <- expiry }

// Collect implements prometheus.Collector.
func (e expiries) Collect(to chan<- prometheus.Metric) {
	for _, each := range e.of.all() {
		to <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(each.leaf.NotAfter.UnixNano())/float64(time.Second), each.folder)
	}
}
