package eventbridge

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

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
