package eventbridge

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

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
