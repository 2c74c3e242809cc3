package gateway

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// retryPorts is the pause before ports that could not be opened are tried again.
const retryPorts = 2 * time.Second

// Listings watches which Functions have activator ports.
type Listings interface {
	// Watch calls apply with all listings, at once and after each change, one call at a time, until ctx ends. If two
	// Functions have the same port, the listing is that of the first.
	Watch(ctx context.Context, apply func([]activation.Listing)) error
}

// Registry registers and gathers metrics.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Deps are the dependencies of a Gateway.
type Deps struct {
	Listings  Listings
	Endpoints activator.Endpoints
	Functions activator.Functions
	// Exposures watches APIRules; nil: none are served.
	Exposures WatchExposures
	// DoorToken returns the token by which bridges recognise a gateway; nil where there are no Doors.
	DoorToken func() (string, error)
	Registry  Registry
	Log       logr.Logger
}

// Gateway serves the HTTP requests of Functions and of the hosts of APIRules.
type Gateway struct {
	deps       Deps
	options    Options
	ports      *activator.Ports
	load       *activator.Table
	activators *activator.Activator
	apiRules   *apiRules // nil without APIRules
	crowded    crowded
	draining   atomic.Bool
	listed     atomic.Bool // a listing leads callers to this gateway
}

// New returns a Gateway for valid options. It does nothing before Run.
func New(deps Deps, options Options) *Gateway {
	// Half, because clients from outside may have HTTP/2 requests in addition to their connections, and are anyone.
	options.Entrance.MaxConnections, options.Entrance.DrainTimeout = (options.MaxConnections+1)/2, options.DrainTimeout
	options.Entrance.BodyTimeout, options.APIRules.BodyTimeout = options.Activator.BodyTimeout, options.Activator.BodyTimeout
	options.APIRules.Requests = options.Entrance.MaxConnections
	g := &Gateway{deps: deps, options: options, load: activator.NewTable(), crowded: newCrowded(deps.Registry)}
	g.ports = activator.NewPorts(options.Host, deps.Log)
	heads := forward.NewHeads()
	g.activators = activator.New(activator.Deps{
		Endpoints: deps.Endpoints,
		Functions: deps.Functions,
		Begin:     func(function types.NamespacedName) activator.Request { return g.load.Begin(function) },
		Heads:     heads,
		Registry:  deps.Registry,
		Log:       deps.Log,
	}, options.Activator)
	if deps.Exposures != nil {
		g.apiRules = newAPIRules(&g.deps, &g.options, g.activators, heads)
	}
	registerGauges(deps.Registry, g)
	return g
}

// SetWait changes how long further requests may wait for a pod unless their Function sets it.
func (g *Gateway) SetWait(wait time.Duration) { g.activators.SetWait(wait) }

// Run serves until ctx ends, and then drains.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.activators.Close()
	log := g.deps.Log
	ground := []func(context.Context) error{
		g.follow,
		func(ctx context.Context) error {
			return daemon.Serve(ctx, daemon.Server{Name: "load", Addr: g.options.LoadAddress, Handler: g.loadHandler()}, log)
		},
		func(ctx context.Context) error {
			return daemon.Serve(ctx, daemon.Server{Name: "metrics", Addr: g.options.MetricsAddress, Handler: g.metricsHandler()}, log)
		},
	}
	if g.apiRules != nil {
		defer g.apiRules.server.Close()
		ground = append(ground, g.apiRules.follow)
	}
	return daemon.RunOn(ctx, g.serve, ground...)
}

// follow keeps the ports in sync with the Functions.
func (g *Gateway) follow(ctx context.Context) error {
	listings := make(chan []activation.Listing)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return g.deps.Listings.Watch(ctx, func(current []activation.Listing) {
			select {
			case listings <- current:
			case <-ctx.Done():
			}
		})
	})
	group.Go(func() error {
		ticker := time.NewTicker(retryPorts)
		defer ticker.Stop()
		var current []activation.Listing
		known := false
		for {
			select {
			case <-ctx.Done():
				return nil
			case current = <-listings:
				known = true
				g.listed.Store(lists(current, g.options.Addresses))
				g.forget(current)
			case <-ticker.C:
			}
			if known && !g.draining.Load() {
				g.ports.Set(current)
			}
		}
	})
	return group.Wait()
}

// forget drops the counts of removed Functions.
func (g *Gateway) forget(current []activation.Listing) {
	exist := make(map[types.NamespacedName]struct{}, len(current))
	for i := range current {
		exist[current[i].Function] = struct{}{}
	}
	g.load.Keep(func(function types.NamespacedName) bool {
		_, ok := exist[function]
		return ok
	})
}

// serve serves callers until ctx ends and the drain delay has passed, and returns when the last response is complete.
func (g *Gateway) serve(ctx context.Context) error {
	accepting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	linger := context.AfterFunc(ctx, func() {
		g.draining.Store(true)
		g.deps.Log.Info("draining", "delay", g.options.DrainDelay.String())
		g.leave(accepting)
		stop()
	})
	defer linger()
	group, serving := errgroup.WithContext(accepting)
	group.Go(func() error { return g.serveActivators(serving) })
	if g.apiRules != nil {
		group.Go(func() error { return g.apiRules.entrance.Run(serving, http.HandlerFunc(g.answerOutside)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	select { // the server no longer tracks upgraded connections
	case <-g.load.Idle():
	case <-time.After(g.options.DrainTimeout):
		waiting, running := g.load.Totals()
		g.deps.Log.Info("drain timed out, cutting requests", "waiting", waiting, "running", running)
	}
	return nil
}

func (g *Gateway) serveActivators(ctx context.Context) error {
	return daemon.Serve(ctx, daemon.Server{
		Name:           "activators",
		Listener:       g.ports,
		Handler:        http.HandlerFunc(g.answer),
		ConnContext:    withOwner,
		DrainTimeout:   g.options.DrainTimeout,
		MaxConnections: g.options.MaxConnections,
		Shares: []daemon.Share{
			{Of: httplimit.KeyOfConn},
			{Of: func(c net.Conn) httplimit.Key { return httplimit.Key{Name: functionOf(c).Namespace} }},
			{Of: func(c net.Conn) httplimit.Key { return httplimit.Key{Name: functionOf(c).String()} }, Most: g.options.ConnectionsPerFunction},
		},
		Full: g.crowded.count,
	}, g.deps.Log)
}

// functionOf returns the Function at whose port a connection was accepted.
func functionOf(c net.Conn) types.NamespacedName {
	owner, ok := activator.Of(c)
	if !ok {
		return types.NamespacedName{}
	}
	return owner.Function().Function
}

// answerOutside closes clients' connections once the process is stopping, so that they reconnect to another replica.
func (g *Gateway) answerOutside(w http.ResponseWriter, r *http.Request) {
	if g.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	g.apiRules.server.ServeHTTP(w, r)
}

type ownerKey struct{}

// withOwner stores the owner of a connection in the context.
func withOwner(ctx context.Context, conn net.Conn) context.Context {
	owner, ok := activator.Of(conn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, owner)
}

func (g *Gateway) answer(w http.ResponseWriter, r *http.Request) {
	owner, ok := r.Context().Value(ownerKey{}).(activator.Owner)
	if !ok || (owner.Gone() && !g.draining.Load()) {
		w.Header().Set("Connection", "close")
		http.Error(w, "this port is no Function's any more", http.StatusServiceUnavailable)
		return
	}
	if g.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	function := owner.Function()
	g.activators.Handler(function.Function, function.UID).ServeHTTP(w, r)
}

// loadHandler serves the scaler, and the controller, which probes the process and reads what it has loaded.
func (g *Gateway) loadHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+activation.GatewayLoadPath, g.load)
	mux.HandleFunc("GET /healthz", healthy)
	if g.apiRules != nil {
		mux.HandleFunc("GET "+apirule.ReportPath, g.reportAPIRules)
	}
	return mux
}

// reportAPIRules serves the controller, which reports in their status whether APIRules are served.
func (g *Gateway) reportAPIRules(w http.ResponseWriter, _ *http.Request) {
	if err := g.apiRules.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(g.apiRules.report())
}

func (g *Gateway) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if g.draining.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		if err := g.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.deps.Registry, promhttp.HandlerOpts{Registry: g.deps.Registry}))
	return mux
}

func (g *Gateway) ready() error {
	if err := g.ports.Ready(); err != nil || g.apiRules == nil {
		return err
	}
	return g.apiRules.ready()
}

func healthy(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

func registerGauges(registerer prometheus.Registerer, g *Gateway) {
	factory := promauto.With(registerer)
	gauge := func(name, help string, read func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	gauge("rouse_gateway_requests_waiting", "Requests that wait for a pod.", func() int {
		waiting, _ := g.load.Totals()
		return waiting
	})
	gauge("rouse_gateway_requests_running", "Requests that a pod has.", func() int {
		_, running := g.load.Totals()
		return running
	})
	gauge("rouse_gateway_ports_open", "Ports of Functions that are open.", g.ports.Open)
}

// crowded counts connections to Functions' ports that exceeded the bound of a caller, a Function, its namespace or all.
type crowded struct{ evicted, refused prometheus.Counter }

func newCrowded(registerer prometheus.Registerer) crowded {
	factory := promauto.With(registerer)
	return crowded{
		evicted: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_connections_evicted_total", Help: "Connections of the slowest callers that were closed to make room for further ones.",
		}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_connections_refused_total", Help: "Connections that were closed at once because there was neither room nor a slow caller.",
		}),
	}
}

func (c crowded) count(evicted int, refused bool) {
	c.evicted.Add(float64(evicted))
	if refused {
		c.refused.Inc()
	}
}

// lookListed is how often a stopping gateway checks whether it is listed.
const lookListed = 50 * time.Millisecond

// leave returns when no listing has led to this gateway for as long as nodes may take to notice. The controller removes
// the listing at once. Without a controller, as in an upgrade that replaces both, it stays listed, and callers still
// arrive.
func (g *Gateway) leave(ctx context.Context) {
	limit, ticker := time.After(g.options.ListedTimeout), time.NewTicker(lookListed)
	defer ticker.Stop()
	for waits := true; waits && g.listed.Load(); {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			waits = false
			g.deps.Log.Info("still listed as an activator after the timeout, check that the controller runs", "after", g.options.ListedTimeout.String())
		case <-ticker.C:
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(g.options.DrainDelay):
	}
}

// lists reports whether one of the listings leads to one of the addresses.
func lists(listings []activation.Listing, addresses []string) bool {
	return slices.ContainsFunc(listings, func(listing activation.Listing) bool {
		return slices.ContainsFunc(listing.Addresses, func(address string) bool { return slices.Contains(addresses, address) })
	})
}
