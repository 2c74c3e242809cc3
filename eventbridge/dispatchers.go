package eventbridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// dispatchers runs one dispatcher per Subscription, and one more for the dead letters of each Subscription that names a
// dead-letter sink.
type dispatchers struct {
	deps        Deps
	options     Options
	dispatch    *dispatch.Metrics
	deadLetters *dispatch.Metrics
	gates       *prometheus.GaugeVec
	kyma        *kymaCounts
	filters     *filters
	access      *publishAccess // nil without rules
	chains      *chain.Chains
	replying    *fair.Pool
	network     *sink.Network
	quotas      *quota.Monitor // nil without Deps.Quota
	enforcers   *quotaEnforcers
	memory      *deliveryMemory
	replicas    *replicas
	retries     atomic.Pointer[Retries] // nil: the options' values

	running map[dispatcherKey]*runningDispatcher // only apply touches it
	all     sync.WaitGroup
}

// dispatcherKey identifies a dispatcher.
type dispatcherKey struct {
	subscription types.NamespacedName
	deadLetters  bool
}

func keyOf(route routing.Route) dispatcherKey {
	return dispatcherKey{subscription: route.Subscription, deadLetters: route.OfDeadLetters}
}

// runningDispatcher is a dispatcher and what it was started for.
type runningDispatcher struct {
	plan routing.Route
	life *subscriptionLife
	stop context.CancelCauseFunc
	done chan struct{}
}

// subscriptionLife is the lifetime of a Subscription, during which dispatchers replace each other. Their running calls
// may continue until it ends.
type subscriptionLife struct {
	ended       <-chan struct{}
	end         context.CancelFunc
	dispatchers sync.WaitGroup
}

// planOf removes from a route the fields that no dispatcher depends on: the controller changes consumers in place.
func planOf(route routing.Route) routing.Route {
	route.Subjects, route.Types = nil, nil
	route.Delivery.StartFrom = routing.StartFrom{}
	route.DeadLetters = nil // dead letters have a dispatcher of their own
	return route
}

var (
	errRemoved = errors.New("subscription removed")
	errChanged = errors.New("subscription changed")
)

func newDispatchers(deps Deps, options Options, access *publishAccess, replicas *replicas) *dispatchers {
	d := &dispatchers{
		deps:        deps,
		options:     options,
		dispatch:    dispatch.NewMetrics(deps.Registry),
		deadLetters: dispatch.NewDeadLetterMetrics(deps.Registry),
		gates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_gate_open", Help: "1 while the sink of a Subscription can take deliveries.",
		}, []string{"namespace", "subscription"}),
		kyma:     newKymaCounts(deps),
		filters:  newFilters(deps.Registry, fair.NewBudget(filterBytes, ownFilterBytes), deps.Log.WithName("filter")),
		access:   access,
		chains:   chain.New(deps.ChainKey, options.Dispatch.MaxCaused),
		replying: newReplyPlaces(),
		network:  sink.NewNetwork(options.Sink),
		memory:   newDeliveryMemory(options.DeliveryBytes, deps.Registry),
		replicas: replicas,
		running:  map[dispatcherKey]*runningDispatcher{},
	}
	d.enforcers = newQuotaEnforcers(d)
	if deps.Quota != nil {
		d.quotas = quota.New(deps.Quota, options.Quota, d.enforcers.reconcile, deps.Registry, deps.Log.WithName("quota"))
	}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rouse_eventbridge_dead_letters_dropped_total",
		Help: "Dead letters that were dropped because their stream was full and their namespace held most of it.",
	}, []string{"namespace"})
	deps.Registry.MustRegister(d.gates, dropped)
	deps.Store.OnDeadLettersDropped(func(namespace string, deadLetters uint64) {
		dropped.WithLabelValues(namespace).Add(float64(deadLetters))
	})
	return d
}

// run follows the routes until ctx ends and returns after the drain.
func (d *dispatchers) run(ctx context.Context) {
	d.all.Go(func() { d.deps.Store.ForwardRetries(ctx, d.memory.retries) })
	d.persist(ctx, "watch Subscriptions", func(ctx context.Context) error {
		return d.deps.Routes.Watch(ctx, func(routes []routing.Route) { d.apply(ctx, routes) })
	})
	d.all.Wait()
	d.network.Close()
}

// apply starts, replaces and stops dispatchers so that each route has one. A replaced dispatcher receives nothing more,
// and its running calls do not delay its successor. Only ordered delivery waits until they have completed.
func (d *dispatchers) apply(ctx context.Context, routes []routing.Route) {
	d.kyma.apply(routes)
	d.enforcers.setRoutes(routes)
	wanted := make(map[dispatcherKey]bool, len(routes))
	for route := range routing.WithDeadLetters(routes) {
		key := keyOf(route)
		wanted[key] = true
		next := planOf(route)
		current := d.running[key]
		if current != nil && reflect.DeepEqual(current.plan, next) {
			continue
		}
		d.running[key] = d.follow(ctx, current, route, next)
	}
	for key, current := range d.running {
		if !wanted[key] {
			current.plan = routing.Route{} // a Subscription of the same name starts a new life
			current.stop(errRemoved)
			current.life.end()
			select {
			case <-current.done:
				delete(d.running, key)
			default: // it drains; a successor of the same name waits for it
			}
		}
	}
}

// follow starts a dispatcher in place of current, which may be nil.
func (d *dispatchers) follow(ctx context.Context, current *runningDispatcher, route, plan routing.Route) *runningDispatcher {
	if current == nil {
		return d.start(ctx, newLife(ctx), route, plan, nil)
	}
	current.stop(errChanged)
	switch {
	case current.plan.Consumer == "": // one of the same name was removed and drains
		return d.start(ctx, newLife(ctx), route, plan, current.done)
	case plan.Delivery.OrderedBy != "" || current.plan.Delivery.OrderedBy != "":
		return d.start(ctx, current.life, route, plan, current.done)
	default:
		return d.start(ctx, current.life, route, plan, nil)
	}
}

func newLife(ctx context.Context) *subscriptionLife {
	ctx, end := context.WithCancel(ctx)
	return &subscriptionLife{ended: ctx.Done(), end: end}
}

// start runs a dispatcher after the channel before, which may be nil, is closed.
func (d *dispatchers) start(ctx context.Context, life *subscriptionLife, route, plan routing.Route, before <-chan struct{}) *runningDispatcher {
	ctx, stop := context.WithCancelCause(ctx)
	started := &runningDispatcher{plan: plan, life: life, stop: stop, done: make(chan struct{})}
	life.dispatchers.Add(1)
	d.all.Go(func() {
		defer close(started.done)
		if before != nil {
			<-before
		}
		d.runOne(ctx, life.ended, route)
		stop(nil)
		life.dispatchers.Done()
		if errors.Is(context.Cause(ctx), errRemoved) {
			life.dispatchers.Wait()
			d.forget(route)
		}
	})
	return started
}

// forget drops the metrics of a removed route.
func (d *dispatchers) forget(route routing.Route) {
	if route.OfDeadLetters {
		d.deadLetters.Forget(subscriptionOf(route))
		return
	}
	d.dispatch.Forget(subscriptionOf(route))
	d.filters.forget(subscriptionOf(route))
	if d.quotas != nil {
		d.quotas.Forget(route.Subscription)
	}
	d.gates.DeleteLabelValues(route.Subscription.Namespace, route.Subscription.Name)
}

// persist restarts work when it fails, with backoff, until ctx ends.
func (d *dispatchers) persist(ctx context.Context, what string, work func(context.Context) error) {
	backoff := dispatch.Backoff{Base: time.Second, Max: 30 * time.Second, Jitter: 0.2}
	for failures := 1; ; failures++ {
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		d.deps.Log.Error(err, "task failed, retrying", "task", what)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Delay(failures, 0, rand.Float64())): //nolint:gosec // jitter needs no secrecy
		}
	}
}

// runOne runs one dispatcher until ctx ends and it has drained. Its sink outlives the drain. The drain is bounded from
// the end of the Subscription's life, and for an ordered route, whose next dispatcher waits for it, from the end of
// ctx.
func (d *dispatchers) runOne(ctx context.Context, ended <-chan struct{}, route routing.Route) {
	log := d.logOf(route)
	if route.OfDeadLetters {
		log = log.WithValues("deadLetters", true)
	}
	share := d.filters.share(route.Subscription.Namespace)
	defer share.Close()
	events, replies := d.memory.of(route)
	if route.Paused {
		log.Info("paused")
		d.hold(ctx, share, events, route, log)
		return
	}
	target, err := targetOf(route)
	if err != nil {
		log.Info("events wait, because deliveries cannot be signed", "reason", err.Error()) // the Subscription's status reports it to the user
		d.hold(ctx, share, events, route, log)
		return
	}
	to, err := sink.New(target,
		sink.Deps{Network: d.network, Endpoints: d.deps.Endpoints, OnGate: d.onGate(ctx, route), ReplyMemory: replies, Log: log})
	if err != nil {
		log.Error(err, "cannot use the sink")
		d.hold(ctx, share, events, route, log)
		return
	}
	deps, options, err := d.dispatchDeps(route, share, ctx.Done(), events)
	if errors.Is(err, errStopped) {
		return
	}
	if err != nil {
		log.Error(err, "cannot compile the filter") // the Subscription's status reports it to the user
		d.hold(ctx, share, events, route, log)
		return
	}
	deps.Gate, deps.Sink, deps.Log = to.Gate(), to, log
	if route.Delivery.OrderedBy == "" {
		deps.BoundDrain = ended
	}
	sinkCtx, stopSink := context.WithCancel(context.WithoutCancel(ctx))
	var sinkRuns sync.WaitGroup
	sinkRuns.Go(func() { d.persist(sinkCtx, "watch endpoints", to.Run) })
	dispatch.New(deps, options).Run(ctx)
	stopSink()
	sinkRuns.Wait()
}

// targetOf returns where a route's events go, and how they are signed.
func targetOf(route routing.Route) (sink.Target, error) {
	target := sink.Target{URL: route.Sink, Service: route.Service, Port: route.Port, External: route.External, Timeout: route.Delivery.Timeout}
	if route.Delivery.Webhook == nil {
		return target, nil
	}
	signer, err := door.NewSigner((*door.Keys)(route.Delivery.Webhook.Keys))
	if err != nil {
		return sink.Target{}, fmt.Errorf("keys of Secret %s: %w", route.Delivery.Webhook.SecretName, err)
	}
	target.Signer = signer
	return target, nil
}

// logOf returns the route's logger. Its names let log levels be set for one Subscription or for the Function behind the
// Service.
func (d *dispatchers) logOf(route routing.Route) logr.Logger {
	log := d.deps.Log.WithName("delivery").WithValues("subscription", route.Subscription.String())
	if route.Service.Name != "" {
		log = log.WithValues("service", route.Service.String())
	}
	return log
}

// hold delivers nothing until ctx ends. Limits still apply: events over a limit become dead letters, even where the
// filter cannot be evaluated.
func (d *dispatchers) hold(ctx context.Context, share *filterShare, memory *fair.Share, route routing.Route, log logr.Logger) {
	deps, options, err := d.dispatchDeps(route, share, ctx.Done(), memory)
	if err != nil {
		route.Filter = nil
		deps, options, err = d.dispatchDeps(route, share, ctx.Done(), memory)
	}
	if err != nil || route.OfDeadLetters || options.TTL == 0 && deps.Quota == nil {
		<-ctx.Done()
		return
	}
	deps.Gate, deps.Log = closedGate{}, log
	dispatch.New(deps, options).Run(ctx)
}

// closedGate never opens.
type closedGate struct{}

// Wait implements dispatch.Gate.
func (closedGate) Wait(ctx context.Context) (<-chan struct{}, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// onGate exports whether the sink accepts deliveries, until ctx ends and another dispatcher does. Dead-letter sinks are not
// exported.
func (d *dispatchers) onGate(ctx context.Context, route routing.Route) func(open bool) {
	if route.OfDeadLetters {
		return nil
	}
	gauge := d.gates.WithLabelValues(route.Subscription.Namespace, route.Subscription.Name)
	return func(open bool) {
		switch {
		case ctx.Err() != nil:
		case open:
			gauge.Set(1)
		default:
			gauge.Set(0)
		}
	}
}

// dispatchDeps returns the dependencies and the options of a route's dispatcher. A dead letter never becomes another
// one: it is retried endlessly with the installation's backoff, because the Subscription's is meant for another sink.
func (d *dispatchers) dispatchDeps(
	route routing.Route, share *filterShare, stop <-chan struct{}, memory *fair.Share,
) (dispatch.Deps, dispatch.Options, error) {
	deps := dispatch.Deps{
		Subscription: subscriptionOf(route), MaxInFlight: route.MaxInFlight,
		Chain: d.chains.Of(route.Subscription.Namespace), Tracer: d.tracer(), Settled: d.recorder(route),
	}
	if route.OfDeadLetters {
		options := d.options.Dispatch
		options.Endless = true
		deps.Source, deps.Metrics = d.deps.Store.DeadLetterSource(route, memory), d.deadLetters
		deps.Retries = d.retriesOf(routing.Delivery{})
		return deps, options, nil
	}
	picked, err := d.filters.compile(route, share, stop)
	if err != nil {
		return deps, dispatch.Options{}, err
	}
	deps.Limit = d.replicas.limitOf(route)
	deps.Retries = d.retriesOf(route.Delivery)
	deps.Source, deps.Metrics = d.deps.Store.Source(route, memory, deps.Limit), d.dispatch
	deps.Filter = picked
	if d.quotas != nil {
		deps.Quota = overQuota{d.quotas.Limit(route.Subscription)}
	}
	deps.Replies = replies{
		to: publisher{store: d.deps.Store, journal: d.deps.Journal}, access: d.access, places: d.replying, namespace: route.Subscription.Namespace,
	}
	deps.Observe = d.kyma.observer(route.Subscription)
	options := d.options.Dispatch
	options.Timeout = d.options.Sink.Timeout
	return deps, dispatchOptions(options, route.Delivery), nil
}

// tracer returns a nil interface without a tracer.
func (d *dispatchers) tracer() dispatch.Tracer {
	if d.deps.Tracer == nil {
		return nil
	}
	return d.deps.Tracer
}

func subscriptionOf(route routing.Route) dispatch.Subscription {
	return dispatch.Subscription{Namespace: route.Subscription.Namespace, Name: route.Subscription.Name}
}
