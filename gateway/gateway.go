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

// retryPorts is how often ports are tried again that could not be opened.
const retryPorts = 2 * time.Second

// Listings watches which Functions have activator ports.
type Listings interface {
	// Watch calls apply with all listings, at once and after each change, one call at a time, until ctx ends. Of two Functions
	// with one port it names the one that had it first.
	Watch(ctx context.Context, apply func([]activation.Listing)) error
}

// Registry takes metrics and gives them back for scraping.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Deps is what a Gateway works with.
type Deps struct {
	Listings  Listings
	Endpoints activator.Endpoints
	Functions activator.Functions
	// Exposures watches APIRules; nil: none are served.
	Exposures WatchExposures
	Registry  Registry
	Log       logr.Logger
}

// Gateway answers the HTTP requests of Functions.
type Gateway struct {
	deps       Deps
	options    Options
	ports      *activator.Ports
	load       *activator.Table
	activators *activator.Activators
	apiRules   *apiRules // nil without
	crowded    crowded
	draining   atomic.Bool
	listed     atomic.Bool // callers are led here by a listing
}

// New makes a Gateway from valid options. It does nothing before Run.
func New(deps Deps, options Options) *Gateway {
	// Half, as those from outside may have requests of HTTP/2 beside their connections, and are anyone.
	options.Entrance.MaxConnections, options.Entrance.DrainTimeout = (options.MaxConnections+1)/2, options.DrainTimeout
	options.Entrance.BodyTimeout, options.Expose.BodyTimeout = options.Activate.BodyTimeout, options.Activate.BodyTimeout
	options.Expose.Requests = options.Entrance.MaxConnections
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
	}, options.Activate)
	if deps.Exposures != nil {
		g.apiRules = newAPIRules(&g.deps, &g.options, g.activators, heads)
	}
	registerGauges(deps.Registry, g)
	return g
}

// SetWait changes how long a request may wait for a pod where its Function does not say, for the requests from now on.
func (g *Gateway) SetWait(wait time.Duration) { g.activators.SetWait(wait) }

// Run answers until ctx ends, and then drains.
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
		defer g.apiRules.exposed.Close()
		ground = append(ground, g.apiRules.follow)
	}
	return daemon.RunOn(ctx, g.serve, ground...)
}

// follow keeps the ports in step with the Functions.
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

// forget drops the counts of Functions that are gone.
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

// serve answers callers until ctx ends and the delay is over, and returns when their last answer is complete.
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
	select { // connections that were upgraded are no business of the server's any more
	case <-g.load.Idle():
	case <-time.After(g.options.DrainTimeout):
		waiting, running := g.load.Totals()
		g.deps.Log.Info("requests did not end in time", "waiting", waiting, "running", running)
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
			{Of: forward.KeyOfConn},
			{Of: func(c net.Conn) httplimit.Key { return httplimit.Key{Name: functionOf(c).Namespace} }},
			{Of: func(c net.Conn) httplimit.Key { return httplimit.Key{Name: functionOf(c).String()} }, Most: g.options.ConnectionsPerFunction},
		},
		Full: g.crowded.count,
	}, g.deps.Log)
}

// functionOf returns at whose port a connection came.
func functionOf(c net.Conn) types.NamespacedName {
	owner, ok := activator.Of(c)
	if !ok {
		return types.NamespacedName{}
	}
	return owner.Function().Function
}

// answerOutside has clients come back elsewhere from the signal to stop on.
func (g *Gateway) answerOutside(w http.ResponseWriter, r *http.Request) {
	if g.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	g.apiRules.exposed.ServeHTTP(w, r)
}

type ownerKey struct{}

// withOwner remembers at whose port a connection came.
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

// loadHandler is for the scaler, and for the controller, which asks whether the process lives and what it has loaded.
func (g *Gateway) loadHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+activation.GatewayLoadPath, g.load)
	mux.HandleFunc("GET /healthz", healthy)
	if g.apiRules != nil {
		mux.HandleFunc("GET "+apirule.ReportPath, g.reportAPIRules)
	}
	return mux
}

// reportAPIRules is for the controller, which says in their status whether they are served.
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

// crowded counts connections to the ports of Functions that were too many for a caller, a Function, its namespace or all.
type crowded struct{ evicted, refused prometheus.Counter }

func newCrowded(registerer prometheus.Registerer) crowded {
	factory := promauto.With(registerer)
	return crowded{
		evicted: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_connections_evicted_total", Help: "Connections of callers that were closed for further ones, as their callers were slowest.",
		}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_connections_refused_total", Help: "Connections of callers that were closed at once, as there was no place and no slow caller.",
		}),
	}
}

func (c crowded) count(evicted int, refused bool) {
	c.evicted.Add(float64(evicted))
	if refused {
		c.refused.Inc()
	}
}

// lookListed is how often a gateway that stops looks whether it is listed.
const lookListed = 50 * time.Millisecond

// leave returns when nobody is led here any more: for as long as nodes may take to know, no listing has had this gateway. The
// controller takes it out at once. While none leads, as in an upgrade that replaces both, it stays listed, and callers come.
func (g *Gateway) leave(ctx context.Context) {
	limit, ticker := time.After(g.options.ListedTimeout), time.NewTicker(lookListed)
	defer ticker.Stop()
	for waits := true; waits && g.listed.Load(); {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			waits = false
			g.deps.Log.Info("still listed as an activator: is there a controller?", "after", g.options.ListedTimeout.String())
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
