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
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/doors"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/eventbridge/timers"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// Routes lists the Subscriptions.
type Routes interface {
	// Watch calls apply with the full list, at once and after each change, one call at a time, until ctx ends.
	Watch(ctx context.Context, apply func([]routing.Route)) error
}

// Store holds events between their publisher and their sinks.
type Store interface {
	ingress.Publisher
	// Source delivers the messages of a Subscription within memory and, unless limit is nil, within limit. Receiving
	// fails while the Subscription's consumer does not exist.
	Source(route routing.Route, memory *fair.Share, limit dispatch.HoldLimit) dispatch.Source
	// DeadLetterSource delivers the dead letters of a Subscription to its dead-letter sink. Delivered dead letters stay
	// in the store.
	DeadLetterSource(route routing.Route, memory *fair.Share) dispatch.Source
	// OnDeadLettersDropped registers f, which is called when the oldest dead letters of a namespace were dropped
	// because their stream was full.
	OnDeadLettersDropped(f func(namespace string, deadLetters uint64))
	// ForwardRetries returns events to the stream when their next attempt is due, until ctx ends.
	ForwardRetries(ctx context.Context, memory *fair.Budget)
	// Connected reports whether the store is reachable.
	Connected() bool
}

// Woken hears of the wakes of Functions and workloads.
type Woken interface {
	// WatchWoken calls apply with the course of each wake, as activation.DecodeWake reads it, until ctx ends.
	WatchWoken(ctx context.Context, apply func(function types.NamespacedName, course []byte)) error
}

// Schemas knows what the data of events may be.
type Schemas interface {
	admin.EventTypes
	// Check returns a *failure.InvalidEventError for an event that the schema of its type does not allow.
	Check(ev *cloudevent.Event) error
}

// Deps are the dependencies of a Bridge.
type Deps struct {
	Routes        Routes
	Subscriptions ingress.Subscriptions // for GET of the subscribed events; nil when they are not known
	Tokens        identity.Reviewer     // reviews publishers' tokens where options have access rules; with nil no client can publish then
	Endpoints     sink.Endpoints
	Store         Store
	Timers        timers.Store         // keeps what is due later; nil refuses it
	Schedules     timers.Schedules     // nil when there are none
	TimerID       string               // distinguishes the bridge among those that share Timers
	Doors         doors.Watch          // nil when there are none
	DoorStore     doors.Store          // keeps the deliveries of Doors; required with Doors
	Gateways      identity.Reviewer    // reviews the tokens of gateways, which pass on the requests to Doors; nil: none listens for them
	Storage       quota.StorageStreams // how full the streams are; nil disables the watermark
	Quota         quota.Stream         // what Subscriptions hold in the stream; nil disables the quota
	Admin         admin.Store          // used only while the admin API has an address
	AdminAccess   identity.Access      // authorizes users of the admin API, required where that API has an address
	Journal       *journal.Journal     // records events for the admin API; nil records nothing
	Schemas       Schemas              // what the data of published events may be; nil: anything
	Woken         Woken                // announces wakes for the admin API; nil: there are none
	Tracer        *tracecontext.Tracer // nil disables spans
	ChainKey      chain.Key            // signs the passes of deliveries, the same at all replicas; the zero Key stands for a random one
	Destination   string               // URLs of the Store; metrics show them without credentials
	Registry      *prometheus.Registry
	Log           logr.Logger

	// These replace the addresses in the options. They may be nil.
	Listener, MetricsListener, AdminListener, DoorListener net.Listener
}

// Bridge is one replica of the data plane.
type Bridge struct {
	deps        Deps
	options     Options
	public      daemon.Server
	metrics     daemon.Server
	dispatchers *dispatchers
	replicas    *replicas
	storage     *quota.StorageMonitor // nil without Deps.Storage
	timers      *timers.Timers        // nil without Deps.Timers
	doors       *doors.Doors          // nil without Deps.Doors
	wakes       *journal.Wakes
	stopping    atomic.Bool
	reached     atomic.Bool // NATS was reached at least once
}

// operatorsConnections is enough for metrics collectors and for operators that follow events.
const operatorsConnections = 128

// New returns a Bridge; Run starts it.
func New(deps Deps, options Options) *Bridge {
	access := newPublishAccess(options.Sinks.Access, deps.Tokens, deps.Registry)
	replicas := &replicas{service: options.Service, endpoints: deps.Endpoints}
	b := &Bridge{deps: deps, options: options, replicas: replicas, wakes: journal.NewWakes(), dispatchers: newDispatchers(deps, options, access, replicas)}
	if deps.Storage != nil {
		b.storage = quota.NewStorageMonitor(quota.StorageDeps{
			Streams: deps.Storage, Registerer: deps.Registry, Log: deps.Log.WithName("storage"),
		}, options.Storage)
	}
	publishes := publisher{store: deps.Store, tracer: deps.Tracer, journal: deps.Journal, storage: b.storage}
	b.timers = newTimers(deps, options.Timers, access, publishes)
	publishes.schemas = deps.Schemas // what is due now was checked when it was published
	handler := ingress.New(ingress.Deps{
		Publisher:     publishes,
		Delay:         checkedDelay(delayOf(b.timers), publishes.check),
		Subscriptions: deps.Subscriptions,
		Authorize:     access.authorizer(),
		Chains:        b.dispatchers.chains,
		Destination:   withoutSecrets(deps.Destination),
		Connected:     deps.Store.Connected,
		Registerer:    deps.Registry,
		Log:           deps.Log.WithName("ingress"),
	}, options.Ingress)
	b.doors = newDoors(deps, options, access, handler)
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

// Run serves until ctx ends and returns after the drain. It returns an error when it cannot listen or when the drain
// timed out.
func (b *Bridge) Run(ctx context.Context) error {
	return daemon.RunOn(ctx, b.work, b.administer, b.watchStorage, b.watchQuotas, b.watchWakes, b.keepTime, b.keepDoors, func(ctx context.Context) error {
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

// watchQuotas polls how much of the store each namespace holds.
func (b *Bridge) watchQuotas(ctx context.Context) error {
	if b.dispatchers.quotas == nil {
		<-ctx.Done()
		return nil
	}
	b.dispatchers.quotas.Run(ctx)
	b.dispatchers.enforcers.wait()
	return nil
}

// keepTime publishes what is due.
func (b *Bridge) keepTime(ctx context.Context) error {
	if b.timers == nil {
		<-ctx.Done()
		return nil
	}
	return b.timers.Run(ctx)
}

// keepDoors follows the Doors.
func (b *Bridge) keepDoors(ctx context.Context) error {
	if b.doors == nil {
		<-ctx.Done()
		return nil
	}
	return b.doors.Run(ctx)
}

// DoorHandler takes requests to Doors in this process, in which nobody else can send any; nil without Doors.
func (b *Bridge) DoorHandler() http.Handler {
	if b.doors == nil {
		return nil
	}
	return b.doors
}

// serveDoors takes requests to Doors that gateways pass on.
func (b *Bridge) serveDoors(ctx context.Context) error {
	if b.doors == nil || b.deps.Gateways == nil {
		<-ctx.Done()
		return nil
	}
	return daemon.Serve(ctx, daemon.Server{
		Name: "doors", Addr: b.options.DoorAddress, Listener: b.deps.DoorListener, Handler: b.leaving(b.doors), DrainTimeout: b.options.DrainTimeout,
		MaxConnections: b.options.Ingress.MaxConnections,
	}, b.deps.Log)
}

// watchWakes remembers the last wake of each Function for the admin API.
func (b *Bridge) watchWakes(ctx context.Context) error {
	if b.deps.Woken == nil {
		<-ctx.Done()
		return nil
	}
	b.dispatchers.persist(ctx, "watch wakes", func(ctx context.Context) error {
		return b.deps.Woken.WatchWoken(ctx, func(function types.NamespacedName, course []byte) {
			if wake, err := activation.DecodeWake(course); err == nil { // a forged one, or one of another release, is left out
				b.wakes.Add(function, wake)
			}
		})
	})
	return nil
}

// administer serves the admin API if it has an address. A redrive ends with ctx and reports its progress.
func (b *Bridge) administer(ctx context.Context) error {
	if b.options.Admin.Address == "" && b.deps.AdminListener == nil {
		<-ctx.Done()
		return nil
	}
	if b.deps.AdminAccess == nil {
		return errors.New("serve the admin API: it has an address but no authorizer (Deps.AdminAccess)")
	}
	handler := admin.New(admin.Deps{
		Store: b.deps.Admin, Journal: b.remembered(), Wakes: b.wakes, Timers: b.Timers(), Types: b.deps.Schemas, Access: b.deps.AdminAccess, Log: b.deps.Log.WithName("admin"),
	})
	return daemon.Serve(ctx, daemon.Server{
		Name: "admin", Addr: b.options.Admin.Address, Listener: b.deps.AdminListener, Handler: daemon.CancelHandler(ctx, handler),
		DrainTimeout: b.options.DrainTimeout, MaxConnections: operatorsConnections,
	}, b.deps.Log)
}

// remembered returns a nil interface without a journal.
func (b *Bridge) remembered() admin.Journal {
	if b.deps.Journal == nil {
		return nil
	}
	return b.deps.Journal
}

// Wakes returns the last wake of each Function.
func (b *Bridge) Wakes() *journal.Wakes { return b.wakes }

// Timers returns what is due later, and a nil interface without timers.
func (b *Bridge) Timers() admin.Timers {
	if b.timers == nil {
		return nil
	}
	return b.timers
}

// work runs ingress and dispatchers, and stops ingress first.
func (b *Bridge) work(ctx context.Context) error {
	group, ended := errgroup.WithContext(ctx) // when ctx ends or a part fails
	ingressCtx, stopIngress := context.WithCancel(context.WithoutCancel(ctx))
	deliveryCtx, stopDeliveries := context.WithCancel(context.WithoutCancel(ctx))
	defer stopIngress()
	defer stopDeliveries()
	ingressStopped := make(chan struct{})

	group.Go(func() error {
		defer close(ingressStopped)
		return daemon.Serve(ingressCtx, b.public, b.deps.Log)
	})
	group.Go(func() error { return b.serveDoors(ingressCtx) })
	group.Go(func() error {
		b.dispatchers.persist(deliveryCtx, "watch replicas", b.replicas.run)
		return nil
	})
	group.Go(func() error {
		b.dispatchers.run(deliveryCtx)
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

// withoutSecrets removes user and password from comma-separated URLs.
func withoutSecrets(urls string) string {
	var clean []string
	for text := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil {
			continue // an unparsable part may be the secret
		}
		u.User = nil
		clean = append(clean, u.String())
	}
	return strings.Join(clean, ",")
}

// publicHandler serves health next to the publish paths.
func (b *Bridge) publicHandler(publish http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", b.ready)
	mux.HandleFunc("/started", b.started)
	mux.Handle("/", b.leaving(publish))
	return mux
}

// leaving closes connections while the process stops. A Service sends only new connections to other replicas, and a
// publisher does not notice when its connection is closed between two requests.
func (b *Bridge) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// started returns 500 until NATS was reached once, so that a rolling update replaces no replica by one that cannot
// store events. Later on a replica without NATS stays and returns that error to publishers.
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

// metricsAtATime bounds the number of scrapes that are in memory.
const metricsAtATime = 4

// metricsHandler serves metrics on every path but health, as Kyma's publisher proxy does.
func (b *Bridge) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", b.ready)
	mux.Handle("/", promhttp.HandlerFor(b.deps.Registry, promhttp.HandlerOpts{
		Registry: b.deps.Registry, MaxRequestsInFlight: metricsAtATime,
	}))
	return mux
}

// ready returns 500 when not ready, as the publisher proxy does.
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
