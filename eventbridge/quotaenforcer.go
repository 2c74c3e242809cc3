package eventbridge

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/internal/routing"
)

// quotaEnforcers give up events of consumers that keep too much of the stream while no dispatcher can receive from them:
// their Subscription is invalid, or deleted, or wants another kind of consumer than it has. They depend on the consumer
// alone, so no spec can prevent them.
type quotaEnforcers struct {
	deliveries *deliveries

	mu    sync.Mutex
	known map[types.NamespacedName]bool // whether the route of a Subscription wants an order; nil before there are routes

	working map[types.NamespacedName]*quotaEnforcer // only reconcile touches it
	all     sync.WaitGroup
}

// quotaEnforcer is the dispatcher of one consumer, which delivers nothing.
type quotaEnforcer struct {
	ordered bool
	limit   *quota.Limit
	stop    context.CancelFunc
	stopped bool // it drains, and is replaced when it is done
	done    chan struct{}
}

func newQuotaEnforcers(d *deliveries) *quotaEnforcers {
	return &quotaEnforcers{deliveries: d, working: map[types.NamespacedName]*quotaEnforcer{}}
}

// setRoutes sets the routes that have dispatchers, before these begin.
func (c *quotaEnforcers) setRoutes(routes []routing.Route) {
	known := make(map[types.NamespacedName]bool, len(routes))
	for _, route := range routes {
		known[route.Subscription] = route.Delivery.OrderedBy != ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = known
}

// reconcile starts and stops enforcers for the consumers that keep too much now.
func (c *quotaEnforcers) reconcile(ctx context.Context, over []quota.Held) {
	wanted := c.unserved(over)
	for name, current := range c.working {
		held, still := wanted[name]
		if still && !current.stopped && held.Ordered == current.ordered && c.deliveries.quotas.Limit(name) == current.limit {
			continue
		}
		current.stop()
		current.stopped = true
		select {
		case <-current.done:
			delete(c.working, name)
			c.forget(name, still)
		default: // it drains
		}
	}
	for name, held := range wanted {
		if c.working[name] == nil {
			c.working[name] = c.start(ctx, held)
		}
	}
}

// unserved are those from which no dispatcher can receive.
func (c *quotaEnforcers) unserved(over []quota.Held) map[types.NamespacedName]quota.Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[types.NamespacedName]quota.Held{}
	for _, held := range over {
		if ordered, served := c.known[held.Subscription]; c.known != nil && (!served || ordered != held.Ordered) {
			found[held.Subscription] = held
		}
	}
	return found
}

// forget drops the limit and the metrics of a Subscription that is not served, and gets no other enforcer.
func (c *quotaEnforcers) forget(name types.NamespacedName, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, served := c.known[name]; !served && !again {
		c.deliveries.quotas.Forget(name)
		c.deliveries.dispatch.Forget(dispatch.Subscription{Namespace: name.Namespace, Name: name.Name})
	}
}

func (c *quotaEnforcers) start(ctx context.Context, held quota.Held) *quotaEnforcer {
	ctx, stop := context.WithCancel(ctx)
	started := &quotaEnforcer{
		ordered: held.Ordered, limit: c.deliveries.quotas.Limit(held.Subscription), stop: stop, done: make(chan struct{}),
	}
	c.all.Go(func() {
		defer close(started.done)
		c.deliveries.enforceQuota(ctx, held)
	})
	return started
}

// wait returns when all have ended, after the context of the last reconcile has.
func (c *quotaEnforcers) wait() { c.all.Wait() }

// enforceQuota makes dead letters of what a consumer keeps above its limit, until ctx ends.
func (d *deliveries) enforceQuota(ctx context.Context, held quota.Held) {
	route := routing.Route{
		Subscription: held.Subscription, UID: held.UID,
		Consumer:    routing.ConsumerName(held.Subscription.Namespace, held.Subscription.Name),
		MaxInFlight: eventingv1alpha2.DefaultMaxInFlight,
		External:    true, // which Service it would be is not known
	}
	if held.Ordered {
		route.Delivery.OrderedBy = "id" // any would do: nothing is delivered
	}
	log := d.logOf(route)
	log.Info("the Subscription cannot be served and keeps more than its namespace's share, so its oldest events become dead letters")
	memory, _ := d.budgets.of(route)
	deps, options, err := d.dispatcher(route, nil, ctx.Done(), memory)
	if err != nil {
		return // only a filter can be wrong
	}
	deps.Gate, deps.Log = closedGate{}, log
	dispatch.New(deps, options).Run(ctx)
}
