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
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/internal/routing"
)

// deliveries is the set of running dispatchers: one per Subscription, and one more for the dead letters of each that
// names a sink for them.
type deliveries struct {
	deps      Deps
	options   Options
	dispatch  *dispatch.Metrics
	letters   *dispatch.Metrics
	gates     *prometheus.GaugeVec
	kyma      *kymaCounts
	filtering *filtering
	access    *publishAccess // nil without rules
	network   *sink.Network
	quotas    *quota.Monitor // nil without Deps.Quota
	rooms     *rooms

	running map[deliveryKey]*delivery // only apply touches it
	all     sync.WaitGroup
}

// deliveryKey names a dispatcher.
type deliveryKey struct {
	subscription types.NamespacedName
	letters      bool
}

func keyOf(route routing.Route) deliveryKey {
	return deliveryKey{subscription: route.Subscription, letters: route.OfDeadLetters}
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
	route.DeadLetters = nil // they have a dispatcher of their own
	return route
}

var (
	errRemoved = errors.New("subscription removed")
	errChanged = errors.New("subscription changed")
)

func newDeliveries(deps Deps, options Options, access *publishAccess) *deliveries {
	d := &deliveries{
		deps:     deps,
		options:  options,
		dispatch: dispatch.NewMetrics(deps.Registry),
		letters:  dispatch.NewDeadLetterMetrics(deps.Registry),
		gates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_gate_open", Help: "1 while the sink of a Subscription can take deliveries.",
		}, []string{"namespace", "subscription"}),
		kyma:      newKymaCounts(deps),
		filtering: newFiltering(deps.Registry),
		access:    access,
		network:   sink.NewNetwork(options.Sink),
		rooms:     newRooms(options.DeliveryBytes, deps.Registry),
		running:   map[deliveryKey]*delivery{},
	}
	if deps.Quota != nil {
		d.quotas = quota.New(deps.Quota, options.Quota, deps.Registry, deps.Log.WithName("quota"))
	}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rouse_eventbridge_dead_letters_dropped_total",
		Help: "Dead letters that were dropped because their stream was full and their namespace held most of it.",
	}, []string{"namespace"})
	deps.Registry.MustRegister(d.gates, dropped)
	deps.Store.OnLettersDropped(func(namespace string, letters uint64) { dropped.WithLabelValues(namespace).Add(float64(letters)) })
	return d
}

// run follows the routes until ctx ends, and returns when everything is drained.
func (d *deliveries) run(ctx context.Context) {
	d.all.Go(func() { d.deps.Store.ForwardRetries(ctx, d.rooms.retries) })
	d.persist(ctx, "watch Subscriptions", func(ctx context.Context) error {
		return d.deps.Routes.Watch(ctx, func(routes []routing.Route) { d.apply(ctx, routes) })
	})
	d.all.Wait()
	d.network.Close()
}

// apply starts, replaces and stops dispatchers so that there is one for each route.
func (d *deliveries) apply(ctx context.Context, routes []routing.Route) {
	d.kyma.apply(routes)
	wanted := make(map[deliveryKey]bool, len(routes))
	for route := range routing.WithDeadLetters(routes) {
		key := keyOf(route)
		wanted[key] = true
		next := planOf(route)
		current := d.running[key]
		if current != nil && reflect.DeepEqual(current.plan, next) {
			continue
		}
		var before chan struct{}
		if current != nil {
			current.stop(errChanged)
			before = current.done
		}
		d.running[key] = d.start(ctx, route, next, before)
	}
	for key, current := range d.running {
		if !wanted[key] {
			current.plan = routing.Route{} // so that a Subscription of the same name starts anew
			current.stop(errRemoved)
			select {
			case <-current.done:
				delete(d.running, key)
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
			d.forget(route)
		}
	})
	return started
}

// forget drops the metrics of a route that is gone.
func (d *deliveries) forget(route routing.Route) {
	if route.OfDeadLetters {
		d.letters.Forget(subscriptionOf(route))
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
