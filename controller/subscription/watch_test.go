package subscription

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// stuck has events, capacity and a pull request, and delivers nothing.
func stuck() broker.Consumer {
	return broker.Consumer{
		MaxAckPending: 10,
		Backlog:       broker.Backlog{Pending: 5, AckPending: 3},
		Progress:      broker.Progress{Created: time.Unix(1, 0), Delivered: 100, Settled: 90, Waiting: 2, Replicas: 1},
	}
}

// full has delivered what it may, and nothing is settled.
func full() broker.Consumer {
	c := stuck()
	c.Backlog.AckPending = 10
	return c
}

func clustered(c broker.Consumer) broker.Consumer {
	c.Progress.Replicas = 3
	return c
}

// recoveriesOf inspects a consumer as often as the sweeper does and returns what was done, when.
func recoveriesOf(seenAt func(i int) broker.Consumer, held, duration, every time.Duration) map[time.Duration]recovery {
	done := map[time.Duration]recovery{}
	var w watch
	start := time.Unix(1000, 0)
	for i := 0; time.Duration(i)*every <= duration; i++ {
		after, what := w.next(seenAt(i), held, start.Add(time.Duration(i)*every))
		if w = after; what != noRecovery {
			done[time.Duration(i)*every] = what
		}
	}
	return done
}

func TestAConsumerThatDeliversOrHasAReasonNotToIsLeftAlone(t *testing.T) {
	t.Parallel()
	same := func(c broker.Consumer) func(int) broker.Consumer { return func(int) broker.Consumer { return c } }
	with := func(c broker.Consumer, change func(*broker.Consumer)) func(int) broker.Consumer {
		change(&c)
		return same(c)
	}
	for name, tc := range map[string]struct {
		seenAt func(i int) broker.Consumer
		held   time.Duration
		every  time.Duration
	}{
		"nothing is published": {seenAt: with(stuck(), func(c *broker.Consumer) { c.Backlog = broker.Backlog{} })},
		"it delivers slowly": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Progress.Delivered += uint64(i)
			return c
		}},
		"it is settled slowly": {seenAt: func(i int) broker.Consumer {
			c := full()
			c.Progress.Settled += uint64(i)
			return c
		}},
		"something behind the oldest is settled": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Backlog.AckPending = uint64(i % 10)
			return c
		}},
		"no pull request, as the sink sleeps or the Subscription is paused": {seenAt: with(stuck(), func(c *broker.Consumer) { c.Progress.Waiting = 0 })},
		"events went back to the consumer when their sink fell asleep":      {seenAt: with(full(), func(c *broker.Consumer) { c.Progress.Waiting, c.Backlog.Pending = 0, 0 })},
		"an administrator paused the consumer":                              {seenAt: with(stuck(), func(c *broker.Consumer) { c.Progress.Paused = true })},
		"all that it may deliver is in the hands of a sink that takes long": {seenAt: same(full()), held: 5 * time.Hour},
		"events wait in a bridge for others of their key":                   {seenAt: same(full())},
		"the last events are in the hands of a sink that takes long": {
			seenAt: with(stuck(), func(c *broker.Consumer) { c.Backlog.Pending = 0 }), held: 5 * time.Hour,
		},
		"NATS was away between the inspections": {seenAt: same(stuck()), every: 2 * time.Minute},
		"it is created again all the time": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Progress.Created = time.Unix(int64(i), 0)
			return c
		}},
		"events come in bursts that are delivered at once": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Backlog.Pending = uint64(i % 2)
			return c
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			every := tc.every
			if every == 0 {
				every = sweepInterval
			}
			require.Empty(t, recoveriesOf(tc.seenAt, tc.held, 4*time.Hour, every))
		})
	}
}

func TestAStuckConsumerIsRecoveredByLeaderMoveThenRenewalWithBackoff(t *testing.T) {
	t.Parallel()
	same := func(c broker.Consumer) func(int) broker.Consumer { return func(int) broker.Consumer { return c } }
	for name, tc := range map[string]struct {
		seenAt   func(i int) broker.Consumer
		duration time.Duration
		want     map[time.Duration]recovery
	}{
		"it has a request and does not answer it": {same(stuck()), 4 * time.Minute, map[time.Duration]recovery{
			time.Minute: renew, 3 * time.Minute: renew, // and then after four, eight ... minutes
		}},
		"its leader is moved first": {same(clustered(stuck())), 2 * time.Minute, map[time.Duration]recovery{
			time.Minute: moveLeader, 2 * time.Minute: renew,
		}},
		"its delivered messages are lost": {same(full()), time.Hour, map[time.Duration]recovery{30 * time.Minute: renew}},
		"in a cluster":                    {same(clustered(full())), 31 * time.Minute, map[time.Duration]recovery{30 * time.Minute: moveLeader, 31 * time.Minute: renew}},
		"a renewal is only a start": {func(i int) broker.Consumer {
			c := stuck()
			if i > 2 { // created again by the first recovery
				c.Progress.Created = time.Unix(2, 0)
			}
			return c
		}, 5 * time.Minute, map[time.Duration]recovery{time.Minute: renew, 3*time.Minute + 30*time.Second: renew}},
		"it goes on after its leader was moved": {func(i int) broker.Consumer {
			c := clustered(stuck())
			if i > 2 {
				c.Progress.Delivered += uint64(i)
			}
			return c
		}, time.Hour, map[time.Duration]recovery{time.Minute: moveLeader}},
		"a delivery resets the timeout": {func(i int) broker.Consumer {
			c := stuck()
			if i > 6 {
				c.Progress.Delivered++
			}
			return c
		}, 4*time.Minute + 30*time.Second, map[time.Duration]recovery{
			time.Minute: renew, 3 * time.Minute: renew, 4*time.Minute + 30*time.Second: renew,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, recoveriesOf(tc.seenAt, heldTimeout(routing.Route{}), tc.duration, sweepInterval))
		})
	}
}

func TestTheTimeoutOfAStuckConsumerIsBounded(t *testing.T) {
	t.Parallel()
	done := recoveriesOf(func(int) broker.Consumer { return stuck() }, 0, 24*time.Hour, sweepInterval)
	require.Greater(t, len(done), 24*60/40, "it is helped every half an hour at least")
}

func TestDeliveriesWithinTheSubscriptionsTimeoutAreNoStuckConsumer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		delivery routing.Delivery
		want     time.Duration
	}{
		"nothing of its own":       {routing.Delivery{}, 30 * time.Minute},
		"a short timeout":          {routing.Delivery{Timeout: time.Second}, 30 * time.Minute},
		"a long timeout":           {routing.Delivery{Timeout: time.Hour}, 4 * time.Hour},
		"a long pause":             {routing.Delivery{Backoff: routing.Backoff{Policy: eventingv1alpha2.BackoffConstant, Delay: time.Hour}}, 4 * time.Hour},
		"a long pause at most":     {routing.Delivery{Backoff: routing.Backoff{MaxDelay: 2 * time.Hour}}, 8 * time.Hour},
		"events are kept in order": {routing.Delivery{OrderedBy: "subject"}, 0},
	} {
		require.Equal(t, tc.want, heldTimeout(routing.Route{Delivery: tc.delivery}), name)
	}
}
