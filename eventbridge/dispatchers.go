package eventbridge

import (
	"context"
	"errors"
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
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// deliveries is the set of running dispatchers: one per Subscription, and one more for the dead letters of each that
// names a sink for them.
type deliveries struct {
	deps        Deps
	options     Options
	dispatch    *dispatch.Metrics
	deadLetters *dispatch.Metrics
	gates       *prometheus.GaugeVec
	kyma        *kymaCounts
	filtering   *filtering
	access      *publishAccess // nil without rules
	chains      *chain.Chains
	replying    *fair.Pool
	network     *sink.Network
	quotas      *quota.Monitor // nil without Deps.Quota
	enforcers   *quotaEnforcers
	budgets     *budgets
	replicas    *replicas
	retries     atomic.Pointer[Retries] // nil: those of the options

	running map[deliveryKey]*delivery // only apply touches it
	all     sync.WaitGroup
}

// deliveryKey names a dispatcher.
type deliveryKey struct {
	subscription types.NamespacedName
	deadLetters  bool
}

func keyOf(route routing.Route) deliveryKey {
	return deliveryKey{subscription: route.Subscription, deadLetters: route.OfDeadLetters}
}

// delivery is one running dispatcher.
type delivery struct {
	plan routing.Route
	life *life
	stop context.CancelCauseFunc
	done chan struct{}
}

// life is that of a Subscription, in which dispatchers follow each other. Their running calls may take their time until
// it ends.
type life struct {
	ended       <-chan struct{}
	end         context.CancelFunc
	dispatchers sync.WaitGroup
}

// planOf leaves out of a route what no dispatcher depends on: the controller changes consumers in place.
func planOf(route routing.Route) routing.Route {
	route.Subjects, route.Types = nil, nil
	route.Delivery.StartFrom = routing.StartFrom{}
	route.DeadLetters = nil // they have a dispatcher of their own
	return route
}

var (
	errRemoved = errors.New("subscription removed")
	errChanged = errors.New("subscription changed")
)

func newDeliveries(deps Deps, options Options, access *publishAccess, replicas *replicas) *deliveries {
	d := &deliveries{
		deps:        deps,
		options:     options,
		dispatch:    dispatch.NewMetrics(deps.Registry),
		deadLetters: dispatch.NewDeadLetterMetrics(deps.Registry),
		gates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_gate_open", Help: "1 while the sink of a Subscription can take deliveries.",
		}, []string{"namespace", "subscription"}),
		kyma:      newKymaCounts(deps),
		filtering: newFiltering(deps.Registry, fair.NewBudget(filterBytes, ownFilterBytes), deps.Log.WithName("filter")),
		access:    access,
		chains:    chain.New(deps.ChainKey, options.Dispatch.MaxCaused),
		replying:  newReplyPlaces(),
		network:   sink.NewNetwork(options.Sink),
		budgets:   newBudgets(options.DeliveryBytes, deps.Registry),
		replicas:  replicas,
		running:   map[deliveryKey]*delivery{},
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

// run follows the routes until ctx ends, and returns when everything is drained.
func (d *deliveries) run(ctx context.Context) {
	d.all.Go(func() { d.deps.Store.ForwardRetries(ctx, d.budgets.retries) })
	d.persist(ctx, "watch Subscriptions", func(ctx context.Context) error {
		return d.deps.Routes.Watch(ctx, func(routes []routing.Route) { d.apply(ctx, routes) })
	})
	d.all.Wait()
	d.network.Close()
}

// apply starts, replaces and stops dispatchers so that there is one for each route. One that is replaced receives nothing
// more, and its running calls block no others. Only ordered delivery goes on after the last of them.
func (d *deliveries) apply(ctx context.Context, routes []routing.Route) {
	d.kyma.apply(routes)
	d.enforcers.setRoutes(routes)
	wanted := make(map[deliveryKey]bool, len(routes))
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
			current.plan = routing.Route{} // so that a Subscription of the same name has a life of its own
			current.stop(errRemoved)
			current.life.end()
			select {
			case <-current.done:
				delete(d.running, key)
			default: // it drains; one of the same name has to wait for it
			}
		}
	}
}

// follow starts a dispatcher in place of the current one, if there is one.
func (d *deliveries) follow(ctx context.Context, current *delivery, route, plan routing.Route) *delivery {
	if current == nil {
		return d.start(ctx, newLife(ctx), route, plan, nil)
	}
	current.stop(errChanged)
	switch {
	case current.plan.Consumer == "": // one of the same name was removed, and drains
		return d.start(ctx, newLife(ctx), route, plan, current.done)
	case plan.Delivery.OrderedBy != "" || current.plan.Delivery.OrderedBy != "":
		return d.start(ctx, current.life, route, plan, current.done)
	default:
		return d.start(ctx, current.life, route, plan, nil)
	}
}

func newLife(ctx context.Context) *life {
	ctx, end := context.WithCancel(ctx)
	return &life{ended: ctx.Done(), end: end}
}

// start runs a dispatcher, after the one before it has drained if there is one to wait for.
func (d *deliveries) start(ctx context.Context, life *life, route, plan routing.Route, before <-chan struct{}) *delivery {
	ctx, stop := context.WithCancelCause(ctx)
	started := &delivery{plan: plan, life: life, stop: stop, done: make(chan struct{})}
	life.dispatchers.Add(1)
	d.all.Go(func() {
		defer close(started.done)
		if before != nil {
			<-before
		}
		d.deliver(ctx, life.ended, route)
		stop(nil)
		life.dispatchers.Done()
		if errors.Is(context.Cause(ctx), errRemoved) {
			life.dispatchers.Wait()
			d.forget(route)
		}
	})
	return started
}

// forget drops the metrics of a route that is gone.
func (d *deliveries) forget(route routing.Route) {
	if route.OfDeadLetters {
		d.deadLetters.Forget(subscriptionOf(route))
		return
	}
	d.dispatch.Forget(subscriptionOf(route))
	d.filtering.forget(subscriptionOf(route))
	if d.quotas != nil {
		d.quotas.Forget(route.Subscription)
	}
	d.gates.DeleteLabelValues(route.Subscription.Namespace, route.Subscription.Name)
}

// persist runs work again whenever it fails, until ctx ends.
func (d *deliveries) persist(ctx context.Context, what string, work func(context.Context) error) {
	backoff := dispatch.Backoff{Base: time.Second, Max: 30 * time.Second, Jitter: 0.2}
	for failures := 1; ; failures++ {
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		d.deps.Log.Error(err, "trying again", "task", what)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Delay(failures, 0, rand.Float64())): //nolint:gosec // jitter needs no secrecy
		}
	}
}

// deliver runs one dispatcher until ctx ends and it has drained. Its sink outlives the drain, which is bounded from when
// the Subscription's life ends. The drain of an ordered route, which its next dispatcher waits for, is bounded from its beginning.
func (d *deliveries) deliver(ctx context.Context, ended <-chan struct{}, route routing.Route) {
	log := d.logOf(route)
	if route.OfDeadLetters {
		log = log.WithValues("deadLetters", true)
	}
	share := d.filtering.share(route.Subscription.Namespace)
	defer share.Close()
	events, replies := d.budgets.of(route)
	if route.Paused {
		log.Info("paused")
		d.hold(ctx, share, events, route, log)
		return
	}
	to, err := sink.New(
		sink.Target{URL: route.Sink, Service: route.Service, Port: route.Port, External: route.External, Timeout: route.Delivery.Timeout},
		sink.Deps{Network: d.network, Endpoints: d.deps.Endpoints, Openness: d.openness(ctx, route), Budget: replies, Log: log})
	if err != nil {
		log.Error(err, "the sink cannot be served")
		d.hold(ctx, share, events, route, log)
		return
	}
	deps, options, err := d.dispatcher(route, share, ctx.Done(), events)
	if errors.Is(err, ErrStopped) {
		return
	}
	if err != nil {
		log.Error(err, "the filter cannot be used") // the Subscription's status reports it to the user
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

// logOf names what the lines of a route are about, so that the Subscription and the Function behind the Service can be debugged alone.
func (d *deliveries) logOf(route routing.Route) logr.Logger {
	log := d.deps.Log.WithName("delivery").WithValues("subscription", route.Subscription.String())
	if route.Service.Name != "" {
		log = log.WithValues("service", route.Service.String())
	}
	return log
}

// hold delivers nothing until ctx ends. Limits hold nevertheless: what is over them becomes a dead letter, also where the
// filter cannot decide whether it would have been delivered.
func (d *deliveries) hold(ctx context.Context, share *filterShare, memory *fair.Share, route routing.Route, log logr.Logger) {
	deps, options, err := d.dispatcher(route, share, ctx.Done(), memory)
	if err != nil {
		route.Filter = nil
		deps, options, err = d.dispatcher(route, share, ctx.Done(), memory)
	}
	if err != nil || route.OfDeadLetters || options.TTL == 0 && deps.Quota == nil {
		<-ctx.Done()
		return
	}
	deps.Gate, deps.Log = closedGate{}, log
	dispatch.New(deps, options).Run(ctx)
}

// closedGate is one that never opens.
type closedGate struct{}

// Wait implements dispatch.Gate.
func (closedGate) Wait(ctx context.Context) (<-chan struct{}, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// openness shows whether the sink of the events can take them, until ctx ends: then another may be the sink. That of
// dead letters blocks no events.
func (d *deliveries) openness(ctx context.Context, route routing.Route) sink.Openness {
	if route.OfDeadLetters {
		return nil
	}
	gauge := d.gates.WithLabelValues(route.Subscription.Namespace, route.Subscription.Name)
	return openness(func(value float64) {
		if ctx.Err() == nil {
			gauge.Set(value)
		}
	})
}

type openness func(value float64)

// Set implements sink.Openness.
func (o openness) Set(value float64) { o(value) }

// dispatcher returns what is delivered and how. A dead letter never becomes another, whatever its sink answers: it is tried
// again with the waits of the installation, because those of the Subscription are meant for another sink.
func (d *deliveries) dispatcher(
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
	picked, err := d.filtering.compile(route, share, stop)
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
		to: observed{store: d.deps.Store, journal: d.deps.Journal}, access: d.access, places: d.replying, namespace: route.Subscription.Namespace,
	}
	deps.Observe = d.kyma.observer(route.Subscription)
	options := d.options.Dispatch
	options.Timeout = d.options.Sink.Timeout
	return deps, dispatchOptions(options, route.Delivery), nil
}

// tracer is nil, and not an interface that holds nil, when there are no spans to make.
func (d *deliveries) tracer() dispatch.Tracer {
	if d.deps.Tracer == nil {
		return nil
	}
	return d.deps.Tracer
}

func subscriptionOf(route routing.Route) dispatch.Subscription {
	return dispatch.Subscription{Namespace: route.Subscription.Namespace, Name: route.Subscription.Name}
}
