package subscription

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
)

// ConsumerRecovery recovers a consumer that does not deliver.
type ConsumerRecovery interface {
	// MoveLeader costs nothing.
	MoveLeader(ctx context.Context, stream, consumer string) error
	// RenewConsumer may cost second deliveries, of what the old consumer had delivered and not settled.
	RenewConsumer(ctx context.Context, stream string, consumer broker.Consumer) error
}

// watchedConsumer is a consumer whose configuration is right, with its Subscription. There are thousands of them, and what is wanted
// of one is rarely asked for.
type watchedConsumer struct {
	subscription *eventingv1alpha2.Subscription
	wanted       func() broker.Consumer
	seen         *broker.Consumer
	held         time.Duration // as of heldTimeout
}

// watchdog recovers consumers that have events and do not deliver them.
type watchdog struct {
	recoverer ConsumerRecovery
	stream    string
	recorder  events.EventRecorder
	metrics   *metrics
	clock     clock.PassiveClock
	log       logr.Logger

	watches map[types.NamespacedName]watch
}

// inspect evaluates all consumers at once and forgets those that are not among them.
func (d *watchdog) inspect(ctx context.Context, watchedConsumers []watchedConsumer) {
	before := d.watches
	d.watches = make(map[types.NamespacedName]watch, len(watchedConsumers))
	for _, p := range watchedConsumers {
		key := types.NamespacedName{Namespace: p.subscription.Namespace, Name: p.subscription.Name}
		after, what := before[key].next(*p.seen, p.held, d.clock.Now())
		d.watches[key] = after
		if what != noRecovery {
			d.recoverConsumer(ctx, key, p, what, d.clock.Since(before[key].since))
		}
	}
}

// recoverConsumer applies a recovery. A later inspection repeats one that fails, or applies the next.
func (d *watchdog) recoverConsumer(ctx context.Context, key types.NamespacedName, p watchedConsumer, what recovery, after time.Duration) {
	log := d.log.WithValues("subscription", key.String(), "consumer", p.seen.Name, "remedy", string(what),
		"pending", p.seen.Backlog.Pending, "held", p.seen.Backlog.AckPending, "after", after.String())
	var err error
	if what == moveLeader {
		err = d.recoverer.MoveLeader(ctx, d.stream, p.seen.Name)
	} else {
		err = d.recoverer.RenewConsumer(ctx, d.stream, p.wanted())
	}
	if err != nil {
		log.Error(err, "cannot recover a consumer that does not deliver")
		return
	}
	log.Info("recovered a consumer that did not deliver")
	d.metrics.recoveries.WithLabelValues(key.Namespace, key.Name, string(what)).Inc()
	d.recorder.Eventf(p.subscription, nil, corev1.EventTypeWarning, "ConsumerStuck", "Recover",
		"The consumer did not deliver for %s, with %d events waiting and %d in delivery: %s",
		after.Round(time.Second), p.seen.Backlog.Pending, p.seen.Backlog.AckPending, what)
}
