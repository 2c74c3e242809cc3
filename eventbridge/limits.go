package eventbridge

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
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
	// ownDeliveryBytes are what each Subscription has beside them: a Source without messages takes no more.
	ownDeliveryBytes = 64 << 10
	// leastDeliveryBytes are as many as the largest event of usual servers takes, four times.
	leastDeliveryBytes = 16 << 20
	// repliesPart is the part, one of so many, that large replies may take beside the events.
	repliesPart = 2
	// retriesPart is the same for retries that are brought back.
	retriesPart = 4
)

// budgets bound the memory that deliveries may take. Replies have one of their own: they wait for memory while their events
// hold some, which would never be free otherwise.
type budgets struct {
	events, replies, retries *fair.Budget
}

func newBudgets(bytes int64, registerer prometheus.Registerer) *budgets {
	r := &budgets{
		events:  fair.NewBudget(bytes, ownDeliveryBytes),
		replies: fair.NewBudget(bytes/repliesPart, 0),
		retries: fair.NewBudget(bytes/retriesPart, ownDeliveryBytes),
	}
	for name, memory := range map[string]*fair.Budget{"events": r.events, "replies": r.replies, "retries": r.retries} {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rouse_eventbridge_delivery_bytes", Help: "Memory that deliveries have taken or reserved, by what for.",
			ConstLabels: prometheus.Labels{"of": name},
		}, func() float64 { return float64(memory.Used()) }))
	}
	return r
}

// of are the shares of a route. The Subscriptions of a namespace have to leave as much to the others as they take.
func (r *budgets) of(route routing.Route) (events, replies *fair.Share) {
	return r.events.Share(route.Subscription.Namespace), r.replies.Share(route.Subscription.Namespace)
}

func bindDeliveryBytes(fs *pflag.FlagSet, bytes *int64) {
	fs.Int64Var(bytes, "delivery-max-bytes", *bytes,
		"memory in bytes for events that are being delivered. Each takes three times its size and 16 KiB; large replies take half as much "+
			"beside it, and each Subscription has 64 KiB of its own")
}

func validateDeliveryBytes(bytes int64) error {
	if bytes < leastDeliveryBytes {
		return fmt.Errorf("--delivery-max-bytes must be at least %d", leastDeliveryBytes)
	}
	return nil
}

// replicas counts the bridges that share the limits of deliveries. While one joins or leaves and not all know it, they
// deliver more or less than a limit; the server bounds what they hold together at any time.
type replicas struct {
	service   types.NamespacedName // empty where this is the only one
	endpoints sink.Endpoints
	count     atomic.Int64
}

// publishPort is the one of the Service.
const publishPort = 80

// run counts until ctx ends.
func (r *replicas) run(ctx context.Context) error {
	if r.service.Name == "" {
		<-ctx.Done()
		return nil
	}
	return r.endpoints.Watch(ctx, r.service, publishPort, func(all []routing.Endpoint) {
		delivering := 0
		for _, endpoint := range all {
			if endpoint.Ready || endpoint.Terminating { // it ends its running calls
				delivering++
			}
		}
		r.count.Store(int64(delivering))
	})
}

// limitOf is what this replica may deliver and hold of a route; nil where the server bounds both.
func (r *replicas) limitOf(route routing.Route) dispatch.HoldLimit {
	if route.Ahead() == 0 {
		return nil
	}
	return func() (deliveries, ahead int) { return route.Share(int(r.count.Load())) }
}

func parseService(text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if text != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return types.NamespacedName{}, fmt.Errorf("%q is not namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// overQuota is how a dispatcher asks for the limit of its Subscription.
type overQuota struct{ *quota.Limit }

// Over implements dispatch.Quota.
func (q overQuota) Over(msg dispatch.Message) bool {
	return q.Limit.Over(msg.Pending())
}

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
