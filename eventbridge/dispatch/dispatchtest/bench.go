package dispatchtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// bench is one test's set-up; tests change it before they start a dispatcher.
type bench struct {
	Backend
	gate        *Gate
	maxInFlight int
	options     dispatch.Options
	source      func(dispatch.Source) dispatch.Source
	filter      dispatch.Filter
	replies     dispatch.Replies
	quota       dispatch.Quota

	registry  *prometheus.Registry
	metrics   *dispatch.Metrics
	published int
}

// Publish counts.
func (b *bench) Publish(t *testing.T, events ...cloudevent.Event) {
	t.Helper()
	b.Backend.Publish(t, events...)
	b.published += len(events)
}

// PublishGarbage counts.
func (b *bench) PublishGarbage(t *testing.T) {
	t.Helper()
	b.Backend.PublishGarbage(t)
	b.published++
}

// start runs a dispatcher. stop drains it and returns when it is done; the end of the test stops it too.
func (b *bench) start(t *testing.T, sink dispatch.Sink) (stop func()) {
	t.Helper()
	deps := dispatch.Deps{
		Subscription: dispatch.Subscription{Namespace: "shop", Name: "orders"},
		MaxInFlight:  b.maxInFlight,
		Source:       b.Source(t, b.options.OrderedBy != ""),
		Gate:         b.gate,
		Sink:         sink,
		Filter:       b.filter,
		Replies:      b.replies,
		Quota:        b.quota,
		Metrics:      b.metrics,
		Log:          logr.Discard(),
	}
	if b.source != nil {
		deps.Source = b.source(deps.Source)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { dispatch.New(deps, b.options).Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// backlogIs waits until the queue is as wanted: brokers count a moment later.
func (b *bench) backlogIs(t *testing.T, want Backlog) {
	t.Helper()
	require.Eventually(t, func() bool { return b.Backlog(t) == want }, timeout, tick, "the backlog is not %+v", want)
}

// holds waits until the dispatcher holds so many messages.
func (b *bench) holds(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		families, err := b.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "rouse_eventbridge_deliveries_in_flight" {
				return int(family.GetMetric()[0].GetGauge().GetValue()) == want
			}
		}
		return false
	}, timeout, tick, "the dispatcher does not hold %d messages", want)
}

// left waits until so many messages are not settled. Brokers count those that were given back as delivered.
func (b *bench) left(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		backlog := b.Backlog(t)
		return backlog.Pending+backlog.AckPending+backlog.Waiting+backlog.Detached == want
	}, timeout, tick, "%d messages are not what is left", want)
}

// settled waits until everything that was published is acked or rejected, and nothing is left in the queue.
// An empty queue alone says little: a broker may count what it has just confirmed a moment later.
func (b *bench) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return b.ended(t) >= b.published }, timeout, tick, "messages are left")
	b.backlogIs(t, Backlog{})
}

// ended counts the messages that were acked or rejected.
func (b *bench) ended(t *testing.T) int {
	t.Helper()
	return b.count(t, dispatch.Ack, dispatch.Skip, dispatch.Reject)
}

// count is how often messages were settled in one of these ways.
func (b *bench) count(t *testing.T, outcomes ...dispatch.Outcome) int {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	count := 0.0
	for _, family := range families {
		if family.GetName() != "rouse_eventbridge_deliveries_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" && slices.Contains(outcomes, dispatch.Outcome(label.GetValue())) {
					count += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return int(count)
}

// Events makes n events with the ids 0 to n-1.
func Events(n int) []cloudevent.Event {
	events := make([]cloudevent.Event, n)
	for i := range events {
		events[i] = cloudevent.Event{
			ID: strconv.Itoa(i), Source: "shop", Type: "order.received.v1",
			DataContentType: "application/json", Data: fmt.Appendf(nil, `{"number":%d}`, i),
		}
	}
	return events
}

// each is the expectation that n events were sent the given number of times.
func each(n, attempts int) map[string]int {
	want := map[string]int{}
	for i := range n {
		want[strconv.Itoa(i)] = attempts
	}
	return want
}
