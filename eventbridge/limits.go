package eventbridge

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	defaultDeliveryBytes = 64 << 20
	// ownDeliveryBytes is what each Subscription may use in addition: a Source without messages takes no more.
	ownDeliveryBytes = 64 << 10
	// leastDeliveryBytes is four times the memory of the largest event of a server with default settings.
	leastDeliveryBytes = 16 << 20
	// repliesPart is the divisor of the events' memory that large replies may take in addition.
	repliesPart = 2
	// retriesPart is the same for due retries.
	retriesPart = 4
)

// deliveryMemory bounds the memory of deliveries. Replies have a budget of their own: they wait for memory while their
// events hold some, which could deadlock on a shared budget.
type deliveryMemory struct {
	events, replies, retries *fair.Budget
}

func newDeliveryMemory(bytes int64, registerer prometheus.Registerer) *deliveryMemory {
	r := &deliveryMemory{
		events:  fair.NewBudget(bytes, ownDeliveryBytes),
		replies: fair.NewBudget(bytes/repliesPart, 0),
		retries: fair.NewBudget(bytes/retriesPart, ownDeliveryBytes),
	}
	for name, memory := range map[string]*fair.Budget{"events": r.events, "replies": r.replies, "retries": r.retries} {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_delivery_bytes", Help: "Memory that deliveries hold or reserve, by purpose.",
			ConstLabels: prometheus.Labels{"of": name},
		}, func() float64 { return float64(memory.Used()) }))
	}
	return r
}

// of returns the shares of a route. The Subscriptions of a namespace take at most as much as they leave to others.
func (r *deliveryMemory) of(route routing.Route) (events, replies *fair.Share) {
	return r.events.Share(route.Subscription.Namespace), r.replies.Share(route.Subscription.Namespace)
}

// replicas counts the bridges that share the limits of deliveries. While one joins or leaves, they may deliver more or
// less than a limit; the server always bounds what they hold together.
type replicas struct {
	service   types.NamespacedName // empty for a single replica
	endpoints sink.Endpoints
	count     atomic.Int64
}

// publishPort is the port of the bridges' Service.
const publishPort = 80

// run watches the Service's endpoints until ctx ends.
func (r *replicas) run(ctx context.Context) error {
	if r.service.Name == "" {
		<-ctx.Done()
		return nil
	}
	return r.endpoints.Watch(ctx, r.service, publishPort, func(all []routing.Endpoint) {
		delivering := 0
		for _, endpoint := range all {
			if endpoint.Ready || endpoint.Terminating { // a terminating replica still completes its calls
				delivering++
			}
		}
		r.count.Store(int64(delivering))
	})
}

// limitOf returns what this replica may deliver and hold of a route; nil where the server bounds both.
func (r *replicas) limitOf(route routing.Route) dispatch.HoldLimit {
	if route.Ahead() == 0 {
		return nil
	}
	return func() (deliveries, ahead int) { return route.Share(int(r.count.Load())) }
}

// overQuota adapts a Subscription's limit to dispatch.Quota.
type overQuota struct{ *quota.Limit }

// Over implements dispatch.Quota.
func (q overQuota) Over(msg dispatch.Message) bool {
	return q.Limit.Over(msg.Pending())
}

// quotaEnforcers dead-letter the oldest events of consumers that exceed their share of the stream while no dispatcher
// can receive from them: their Subscription is invalid, deleted, or needs another kind of consumer. Enforcers depend on
// the consumer alone, so no spec can prevent them.
type quotaEnforcers struct {
	dispatchers *dispatchers

	mu    sync.Mutex
	known map[types.NamespacedName]bool // whether the route of a Subscription is ordered; nil before there are routes

	working map[types.NamespacedName]*quotaEnforcer // only reconcile touches it
	all     sync.WaitGroup
}

// quotaEnforcer is a dispatcher of one consumer that delivers nothing.
type quotaEnforcer struct {
	ordered bool
	limit   *quota.Limit
	stop    context.CancelFunc
	stopped bool // it drains, and is replaced when it is done
	done    chan struct{}
}

func newQuotaEnforcers(d *dispatchers) *quotaEnforcers {
	return &quotaEnforcers{dispatchers: d, working: map[types.NamespacedName]*quotaEnforcer{}}
}

// setRoutes sets the routes that have dispatchers, before these start.
func (c *quotaEnforcers) setRoutes(routes []routing.Route) {
	known := make(map[types.NamespacedName]bool, len(routes))
	for _, route := range routes {
		known[route.Subscription] = route.Delivery.OrderedBy != ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = known
}

// reconcile starts and stops enforcers for the consumers that exceed their share.
func (c *quotaEnforcers) reconcile(ctx context.Context, over []quota.Held) {
	wanted := c.unserved(over)
	for name, current := range c.working {
		held, still := wanted[name]
		if still && !current.stopped && held.Ordered == current.ordered && c.dispatchers.quotas.Limit(name) == current.limit {
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

// unserved returns the consumers from which no dispatcher can receive.
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

// forget drops the limit and the metrics of a Subscription without a dispatcher and without another enforcer.
func (c *quotaEnforcers) forget(name types.NamespacedName, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, served := c.known[name]; !served && !again {
		c.dispatchers.quotas.Forget(name)
		c.dispatchers.dispatch.Forget(dispatch.Subscription{Namespace: name.Namespace, Name: name.Name})
	}
}

func (c *quotaEnforcers) start(ctx context.Context, held quota.Held) *quotaEnforcer {
	ctx, stop := context.WithCancel(ctx)
	started := &quotaEnforcer{
		ordered: held.Ordered, limit: c.dispatchers.quotas.Limit(held.Subscription), stop: stop, done: make(chan struct{}),
	}
	c.all.Go(func() {
		defer close(started.done)
		c.dispatchers.enforceQuota(ctx, held)
	})
	return started
}

// wait returns when all enforcers have ended, which requires that the context of the last reconcile has ended.
func (c *quotaEnforcers) wait() { c.all.Wait() }

// enforceQuota dead-letters what a consumer holds above its limit, until ctx ends.
func (d *dispatchers) enforceQuota(ctx context.Context, held quota.Held) {
	route := routing.Route{
		Subscription: held.Subscription, UID: held.UID,
		Consumer:    routing.ConsumerName(held.Subscription.Namespace, held.Subscription.Name),
		MaxInFlight: eventingv1alpha2.DefaultMaxInFlight,
		External:    true, // the Service is not known
	}
	if held.Ordered {
		route.Delivery.OrderedBy = "id" // any key will do: nothing is delivered
	}
	log := d.logOf(route)
	log.Info("the Subscription has no dispatcher and its namespace exceeds its share of the stream, its oldest events become dead letters")
	memory, _ := d.memory.of(route)
	deps, options, err := d.dispatchDeps(route, nil, ctx.Done(), memory)
	if err != nil {
		return // only an invalid filter fails
	}
	deps.Gate, deps.Log = closedGate{}, log
	dispatch.New(deps, options).Run(ctx)
}
