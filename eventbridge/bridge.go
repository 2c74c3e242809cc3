package eventbridge

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// Routes lists the Subscriptions.
type Routes interface {
	// Watch calls apply with all of them, at once and after each change, one call at a time, until ctx ends.
	Watch(ctx context.Context, apply func([]routing.Route)) error
}

// Store keeps events between their publisher and their sinks.
type Store interface {
	ingress.Publisher
	// Source hands out the messages of a Subscription, as many as memory allows and no more at a time than limit says, which
	// may be nil. Receiving fails while its consumer does not exist.
	Source(route routing.Route, memory *fair.Share, limit dispatch.HoldLimit) dispatch.Source
	// DeadLetterSource hands out the dead letters of a Subscription, for the sink that it names for them. Those that are
	// delivered stay dead letters.
	DeadLetterSource(route routing.Route, memory *fair.Share) dispatch.Source
	// OnDeadLettersDropped calls f whenever the oldest dead letters of a namespace were dropped because their stream was full.
	OnDeadLettersDropped(f func(namespace string, deadLetters uint64))
	// ForwardRetries brings events back that are due for their next attempt, until ctx ends.
	ForwardRetries(ctx context.Context, memory *fair.Budget)
	// Connected reports whether the store can be reached.
	Connected() bool
}

// Deps are what a Bridge works with.
type Deps struct {
	Routes        Routes
	Subscriptions ingress.Subscriptions // what applications may ask for; nil when they are not known
	Tokens        identity.Reviewer     // whose tokens are, where options have rules for publishers; nil lets no client publish then
	Endpoints     sink.Endpoints
	Store         Store
	Storage       quota.FillStreams    // how full the store is; nil when that does not matter
	Quota         quota.Stream         // what Subscriptions keep in the store; nil when that does not matter
	Admin         admin.Store          // what the admin API asks; it is not asked while that API has no address
	AdminAccess   identity.Access      // who may ask it, which has to be there where that API has an address
	Journal       *journal.Journal     // remembers what happened to events for the admin API; nil does not
	Tracer        *tracecontext.Tracer // nil makes no spans
	ChainKey      chain.Key            // signs what sinks show when they publish, the same at all replicas; the zero Key is one of this replica's own
	Destination   string               // URLs of the Store; metrics show them without user and password
	Registry      *prometheus.Registry
	Log           logr.Logger

	// These replace the addresses of the options. They may be nil.
	Listener, MetricsListener, AdminListener net.Listener
}

// Bridge is one replica of the data plane.
type Bridge struct {
	deps       Deps
	options    Options
	public     daemon.Server
	metrics    daemon.Server
	deliveries *deliveries
	replicas   *replicas
	storage    *quota.StorageMonitor // nil without Deps.Storage
	stopping   atomic.Bool
	reached    atomic.Bool // NATS, once
}

// operatorsConnections are enough for collectors of metrics, and for operators that follow events.
const operatorsConnections = 128

// New makes a Bridge; Run starts it.
func New(deps Deps, options Options) *Bridge {
	access := newPublishAccess(options.Sinks.Access, deps.Tokens, deps.Registry)
	replicas := &replicas{service: options.Service, endpoints: deps.Endpoints}
	b := &Bridge{deps: deps, options: options, replicas: replicas, deliveries: newDeliveries(deps, options, access, replicas)}
	if deps.Storage != nil {
		b.storage = quota.NewStorageMonitor(quota.StorageDeps{
			Streams: deps.Storage, Registerer: deps.Registry, Log: deps.Log.WithName("storage"),
		}, options.Storage)
	}
	handler := ingress.New(ingress.Deps{
		Publisher:     bounded(observed{deps.Store, deps.Tracer, deps.Journal}, b.storage),
		Subscriptions: deps.Subscriptions,
		Authorize:     access.authorizer(),
		Chains:        b.deliveries.chains,
		Destination:   withoutSecrets(deps.Destination),
		Connected:     deps.Store.Connected,
		Registerer:    deps.Registry,
		Log:           deps.Log.WithName("ingress"),
	}, options.Ingress)
	b.public = daemon.Server{
		Name: "ingress", Addr: options.Listen, Listener: deps.Listener, Handler: b.publicHandler(handler), DrainTimeout: options.DrainTimeout,
		MaxConnections: options.Ingress.MaxConnections,
	}
	b.metrics = daemon.Server{
		Name: "metrics", Addr: options.MetricsAddress, Listener: deps.MetricsListener, Handler: b.metricsHandler(), DrainTimeout: options.DrainTimeout,
		MaxConnections: operatorsConnections,
	}
	return b
}

// Run works until ctx ends, and returns after the drain. It returns an error when it cannot listen or had
// to cut publishers off.
func (b *Bridge) Run(ctx context.Context) error {
	return daemon.RunOn(ctx, b.work, b.administer, b.watchStorage, b.watchQuotas, func(ctx context.Context) error {
		return daemon.Serve(ctx, b.metrics, b.deps.Log)
	})
}

// watchStorage polls how full the store is.
func (b *Bridge) watchStorage(ctx context.Context) error {
	if b.storage == nil {
		<-ctx.Done()
		return nil
	}
	b.storage.Run(ctx)
	return nil
}

// watchQuotas polls how much of it each namespace keeps.
func (b *Bridge) watchQuotas(ctx context.Context) error {
	if b.deliveries.quotas == nil {
		<-ctx.Done()
		return nil
	}
	b.deliveries.quotas.Run(ctx)
	b.deliveries.enforcers.wait()
	return nil
}

// administer serves the admin API, if it has an address. A redrive ends when ctx does, and reports how far it came.
func (b *Bridge) administer(ctx context.Context) error {
	if b.options.Admin.Address == "" && b.deps.AdminListener == nil {
		<-ctx.Done()
		return nil
	}
	if b.deps.AdminAccess == nil {
		return errors.New("the admin API has an address, and nothing that says who may use it")
	}
	handler := admin.New(b.deps.Admin, b.remembered(), b.deps.AdminAccess, b.deps.Log.WithName("admin"))
	return daemon.Serve(ctx, daemon.Server{
		Name: "admin", Addr: b.options.Admin.Address, Listener: b.deps.AdminListener, Handler: handler.Until(ctx), DrainTimeout: b.options.DrainTimeout,
		MaxConnections: operatorsConnections,
	}, b.deps.Log)
}

// remembered is nil, and not an interface that holds nil, without a journal.
func (b *Bridge) remembered() admin.Journal {
	if b.deps.Journal == nil {
		return nil
	}
	return b.deps.Journal
}

// work runs ingress and deliveries, and stops one after the other.
func (b *Bridge) work(ctx context.Context) error {
	group, ended := errgroup.WithContext(ctx) // by the caller or by a part that failed
	ingressCtx, stopIngress := context.WithCancel(context.WithoutCancel(ctx))
	deliveryCtx, stopDeliveries := context.WithCancel(context.WithoutCancel(ctx))
	defer stopIngress()
	defer stopDeliveries()
	ingressStopped := make(chan struct{})

	group.Go(func() error {
		defer close(ingressStopped)
		return daemon.Serve(ingressCtx, b.public, b.deps.Log)
	})
	group.Go(func() error {
		b.deliveries.persist(deliveryCtx, "watch replicas", b.replicas.run)
		return nil
	})
	group.Go(func() error {
		b.deliveries.run(deliveryCtx)
		return nil
	})
	group.Go(func() error {
		<-ended.Done()
		b.deps.Log.Info("draining")
		b.stopping.Store(true)
		select {
		case <-time.After(b.options.ShutdownDelay):
		case <-ingressStopped: // it failed, so there are no publishers to wait for
		}
		stopIngress()
		<-ingressStopped
		stopDeliveries()
		return nil
	})
	return group.Wait()
}

// withoutSecrets takes user and password out of comma-separated URLs.
func withoutSecrets(urls string) string {
	var clean []string
	for text := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil {
			continue // the part that cannot be read may be the secret
		}
		u.User = nil
		clean = append(clean, u.String())
	}
	return strings.Join(clean, ",")
}

// publicHandler serves health beside the publish paths.
func (b *Bridge) publicHandler(publish http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", b.ready)
	mux.HandleFunc("/started", b.started)
	mux.Handle("/", b.leaving(publish))
	return mux
}

// leaving ends connections while the process stops. A Service leads only new ones to other replicas, and a publisher
// whose connection is closed between two requests of its own never notices.
func (b *Bridge) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// started is 500 until NATS was reached for the first time, so that an upgrade replaces no replica by one that can store
// nothing yet. Without NATS later on publishers shall get that answer from a replica, which stays.
func (b *Bridge) started(w http.ResponseWriter, _ *http.Request) {
	if !b.reached.Load() && b.deps.Store.Connected() {
		b.reached.Store(true)
	}
	switch {
	case b.stopping.Load():
		answer(w, http.StatusInternalServerError, "stopping")
	case !b.reached.Load():
		answer(w, http.StatusInternalServerError, "NATS was not reached yet")
	default:
		answer(w, http.StatusOK, "ok")
	}
}

// metricsAtATime bounds how often all metrics are in memory.
const metricsAtATime = 4

// metricsHandler serves metrics on every path, as Kyma's publisher proxy does, but for health.
func (b *Bridge) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", b.ready)
	mux.Handle("/", promhttp.HandlerFor(b.deps.Registry, promhttp.HandlerOpts{
		Registry: b.deps.Registry, MaxRequestsInFlight: metricsAtATime,
	}))
	return mux
}

// ready is 500 when not, which is the publisher proxy's status.
func (b *Bridge) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case b.stopping.Load():
		answer(w, http.StatusInternalServerError, "stopping")
	case !b.deps.Store.Connected():
		answer(w, http.StatusInternalServerError, "no connection to NATS JetStream server")
	default:
		answer(w, http.StatusOK, "ok")
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a prober that is gone does not matter
}
