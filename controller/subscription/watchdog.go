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
	"github.com/rouse-run/rouse/internal/routing"
)

// ConsumerRecovery recovers a consumer that does not deliver.
type ConsumerRecovery interface {
	// MoveLeader has no side effects.
	MoveLeader(ctx context.Context, stream, consumer string) error
	// RenewConsumer may redeliver events that the old consumer had delivered and that were not settled.
	RenewConsumer(ctx context.Context, stream string, consumer broker.Consumer) error
}

// watchedConsumer is a consumer with the desired configuration, and its Subscription. There are thousands of them, and
// wanted is rarely called.
type watchedConsumer struct {
	subscription *eventingv1alpha2.Subscription
	wanted       func() broker.Consumer
	seen         *broker.Consumer
	held         time.Duration // see heldTimeout
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

// inspect evaluates all consumers and drops the state of those that no longer exist.
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

// recoverConsumer applies a recovery. A later inspection repeats a failed one, or applies the next.
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

const (
	// idleTimeout is how long a consumer may have events, capacity and a pull request and deliver nothing. NATS needs
	// milliseconds.
	idleTimeout = time.Minute
	// minHeldTimeout is how long a consumer may wait for its deliveries to be settled. A sink may be slow, and an event
	// keeps its place when the stream of retries is full.
	minHeldTimeout = 30 * time.Minute
	heldFactor     = 4 // times what the Subscription itself allows
	// longestGap is the maximum time between two inspections that are compared. During a longer one NATS was
	// unreachable.
	longestGap = 3 * sweepInterval
	// maxRounds bounds how often the timeout doubles after renewals without effect.
	maxRounds = 5
)

// recovery is the remedy for a consumer that does not deliver.
type recovery string

const (
	noRecovery recovery = ""
	moveLeader recovery = "leader moved"
	renew      recovery = "renewed"
)

// watch is the state of a consumer between two inspections.
type watch struct {
	inspected time.Time
	progress  broker.Progress // without Waiting, which changes all the time
	held      uint64          // messages delivered and not settled
	since     time.Time       // when it was first seen in this state
	moved     bool            // its leader was moved since then
	rounds    int             // renewals without a delivery since
}

// next evaluates an inspection of a consumer. held is how long messages may be unsettled before the consumer counts as
// stuck, 0 for ever. A consumer without pull requests is healthy: the Subscription is paused, its sink is asleep, or no
// bridge runs.
func (w watch) next(seen broker.Consumer, held time.Duration, now time.Time) (watch, recovery) {
	after := watch{inspected: now, progress: seen.Progress, held: seen.Backlog.AckPending, since: now, rounds: w.rounds}
	after.progress.Waiting = 0
	still := after.progress == w.progress && after.held == w.held && now.Sub(w.inspected) <= longestGap
	if after.progress.Created.Equal(w.progress.Created) && after.progress.Delivered > w.progress.Delivered {
		after.rounds = 0
	}
	timeout := timeoutFor(seen, held)
	if !still || timeout == 0 {
		return after, noRecovery
	}
	after.since, after.moved = w.since, w.moved
	if w.moved {
		timeout = idleTimeout
	}
	if now.Sub(w.since) < timeout<<w.rounds {
		return after, noRecovery
	}
	after.since = now
	if seen.Progress.Replicas > 1 && !w.moved {
		after.moved = true
		return after, moveLeader
	}
	after.rounds = min(w.rounds+1, maxRounds)
	return after, renew
}

// timeoutFor returns how long a consumer may stay in its current state, 0 for ever.
func timeoutFor(seen broker.Consumer, held time.Duration) time.Duration {
	switch {
	case seen.Progress.Waiting == 0, seen.Progress.Paused:
		return 0
	case seen.Backlog.Pending > 0 && seen.Backlog.AckPending < uint64(max(seen.MaxAckPending, 0)):
		return idleTimeout
	case seen.Backlog.AckPending > 0:
		return held
	default:
		return 0
	}
}

// heldTimeout returns how long the messages of a route may be unsettled. Messages of an ordered Subscription wait in a
// bridge for all attempts of those before them.
func heldTimeout(route routing.Route) time.Duration {
	if route.Delivery.OrderedBy != "" {
		return 0
	}
	own := max(route.Delivery.Timeout, route.Delivery.Backoff.Delay, route.Delivery.Backoff.MaxDelay)
	return max(minHeldTimeout, heldFactor*own)
}
