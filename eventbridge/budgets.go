package eventbridge

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

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
