package eventbridge

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/internal/routing"
)

// deliveries is the set of running dispatchers, one per Subscription.
type deliveries struct {
	deps     Deps
	options  Options
	dispatch *dispatch.Metrics
	gates    *prometheus.GaugeVec
	kyma     *kymaCounts
	network  *sink.Network

	running map[types.NamespacedName]*delivery // only apply touches it
	all     sync.WaitGroup
}

// delivery is one running dispatcher.
type delivery struct {
	plan routing.Route
	stop context.CancelCauseFunc
	done chan struct{}
}

// planOf leaves out of a route what no dispatcher depends on: the controller changes subjects in place.
func planOf(route routing.Route) routing.Route {
	route.Subjects, route.Types = nil, nil
	return route
}

var (
	errRemoved = errors.New("subscription removed")
	errChanged = errors.New("subscription changed")
)

func newDeliveries(deps Deps, options Options) *deliveries {
	d := &deliveries{
		deps:     deps,
		options:  options,
		dispatch: dispatch.NewMetrics(deps.Registry),
		gates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_gate_open", Help: "1 while the sink of a Subscription can take deliveries.",
		}, []string{"namespace", "subscription"}),
		kyma:    newKymaCounts(deps),
		network: sink.NewNetwork(options.Sink),
		running: map[types.NamespacedName]*delivery{},
	}
	deps.Registry.MustRegister(d.gates)
	return d
}

// run follows the routes until ctx ends, and returns when everything is drained.
func (d *deliveries) run(ctx context.Context) {
	d.all.Go(func() { d.deps.Store.ForwardRetries(ctx) })
	d.persist(ctx, "watch Subscriptions", func(ctx context.Context) error {
		return d.deps.Routes.Watch(ctx, func(routes []routing.Route) { d.apply(ctx, routes) })
	})
	d.all.Wait()
	d.network.Close()
}

// apply starts, replaces and stops dispatchers so that there is one for each route.
func (d *deliveries) apply(ctx context.Context, routes []routing.Route) {
	d.kyma.apply(routes)
	wanted := make(map[types.NamespacedName]bool, len(routes))
	for _, route := range routes {
		wanted[route.Subscription] = true
		next := planOf(route)
		current := d.running[route.Subscription]
		if current != nil && reflect.DeepEqual(current.plan, next) {
			continue
		}
		var before chan struct{}
		if current != nil {
			current.stop(errChanged)
			before = current.done
		}
		d.running[route.Subscription] = d.start(ctx, route, next, before)
	}
	for name, current := range d.running {
		if !wanted[name] {
			current.plan = routing.Route{} // so that a Subscription of the same name starts anew
			current.stop(errRemoved)
			select {
			case <-current.done:
				delete(d.running, name)
			default: // it drains; one of the same name has to wait for it
			}
		}
	}
}

// start runs a dispatcher after the one before it has drained.
func (d *deliveries) start(ctx context.Context, route, plan routing.Route, before <-chan struct{}) *delivery {
	ctx, stop := context.WithCancelCause(ctx)
	started := &delivery{plan: plan, stop: stop, done: make(chan struct{})}
	d.all.Go(func() {
		defer close(started.done)
		if before != nil {
			<-before
		}
		d.deliver(ctx, route)
		stop(nil)
		if errors.Is(context.Cause(ctx), errRemoved) {
			d.dispatch.Forget(subscriptionOf(route))
			d.gates.DeleteLabelValues(route.Subscription.Namespace, route.Subscription.Name)
		}
	})
	return started
}

// deliver runs one Subscription's dispatcher until ctx ends and it has drained. Its sink outlives the drain.
func (d *deliveries) deliver(ctx context.Context, route routing.Route) {
	log := d.deps.Log.WithName("delivery").WithValues("subscription", route.Subscription.String())
	if route.Paused {
		log.Info("paused")
		<-ctx.Done()
		return
	}
	to, err := sink.New(
		sink.Target{URL: route.Sink, Service: route.Service, Port: route.Port, External: route.External, Timeout: route.Delivery.Timeout},
		sink.Deps{
			Network:   d.network,
			Endpoints: d.deps.Endpoints,
			Openness:  d.gates.WithLabelValues(route.Subscription.Namespace, route.Subscription.Name),
			Log:       log,
		})
	if err != nil {
		log.Error(err, "the sink cannot be served")
		return
	}
	picked, err := filterOf(route)
	if err != nil {
		log.Error(err, "the filter cannot be used") // the Subscription's status tells the user
		return
	}
	sinkCtx, stopSink := context.WithCancel(context.WithoutCancel(ctx))
	var sinkRuns sync.WaitGroup
	sinkRuns.Go(func() { d.persist(sinkCtx, "watch endpoints", to.Run) })
	dispatch.New(dispatch.Deps{
		Subscription: subscriptionOf(route),
		MaxInFlight:  route.MaxInFlight,
		Source:       d.deps.Store.Source(route),
		Gate:         to.Gate(),
		Sink:         to,
		DeadLetters:  d.deps.Store.DeadLetters(route),
		Filter:       picked,
		Replies:      replies{d.deps.Store},
		Tracer:       d.tracer(),
		Metrics:      d.dispatch,
		Observe:      d.kyma.observer(route.Subscription),
		Log:          log,
	}, dispatchOptions(d.options.Dispatch, route.Delivery)).Run(ctx)
	stopSink()
	sinkRuns.Wait()
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
