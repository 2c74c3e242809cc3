package scaler

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

func TestStreamsKilledEightTimesLeaveThePollAsSafetyNet(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		for range 8 {
			advance(2 * time.Minute)
			r.network.cut()
		}
		synctest.Wait()
		_, waits := object.Streams()
		require.Equal(t, time.Minute, waits[len(waits)-1], "KEDA waits longest by now")

		published := time.Now()
		r.broker.publish(orderPlaced)
		require.NoError(t, object.Await(t.Context(), func(o *kedatest.ScaledObject) bool { return o.Replicas() == 1 }))
		require.LessOrEqual(t, time.Since(published), 10*time.Second, "the polling interval")
	}, order)
}

func TestRestartsOfTheScalerCostTwoSecondsOfPushEach(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		for range 8 {
			advance(2 * time.Minute)
			r.stop()
			r.serve()
		}
		published := time.Now()
		r.broker.publish(orderPlaced) // while no stream is open
		require.NoError(t, object.Await(t.Context(), func(o *kedatest.ScaledObject) bool { return o.Replicas() == 1 }))
		require.Less(t, time.Since(published), 3*time.Second)
		opened, waits := object.Streams()
		require.Equal(t, 9, opened)
		for _, wait := range waits {
			require.Equal(t, 2*time.Second, wait)
		}
	}, order)
}

func TestStreamsEndByThemselvesSoThatKEDAForgetsItsBackoff(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		for range 5 {
			began := time.Now()
			stream, err := r.client.StreamIsActive(t.Context(), r.ref("order"))
			require.NoError(t, err)
			_, err = stream.Recv()
			require.ErrorIs(t, err, io.EOF)
			require.GreaterOrEqual(t, time.Since(began), 10*time.Minute)
			require.LessOrEqual(t, time.Since(began), 20*time.Minute)
		}
	}, order)
}

func TestStreamSaysTrueAtOpenWhenTheFunctionIsActive(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(order, broker.Backlog{AckPending: 1})
		r.awake(order.Service, true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := r.client.StreamIsActive(ctx, r.ref("order"))
		require.NoError(t, err)
		answer, err := stream.Recv()
		require.NoError(t, err)
		require.True(t, answer.GetResult())

		cancel()
		_, err = stream.Recv()
		require.Equal(t, codes.Canceled, status.Code(err))
	}, order)
}

func TestStreamsEndWithoutAnErrorOnStop(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		push, err := r.client.StreamIsActive(t.Context(), r.ref("order"))
		require.NoError(t, err)
		specs, err := r.client.StreamMetricSpec(t.Context(), r.ref("order"))
		require.NoError(t, err)
		_, err = specs.Recv()
		require.NoError(t, err)
		synctest.Wait()

		began := time.Now()
		r.stop()
		_, err = push.Recv()
		require.ErrorIs(t, err, io.EOF)
		_, err = specs.Recv()
		require.ErrorIs(t, err, io.EOF)
		require.Less(t, time.Since(began), time.Second)
		require.Empty(t, r.logs.containing("streams did not end in time"))
	}, order)
}

func TestEverythingGoesOnDuringTheDrainDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		order := routeTo(shop, "order", "orders", orderPlaced)
		r := newRig(t)
		r.options.DrainDelay = 3 * time.Second
		r.broker.create(order)
		r.routes.post([]routing.Route{order})
		r.start()
		object := r.keda("order", seldom)
		advance(10 * time.Second)

		go r.stop()
		advance(2 * time.Second)
		r.broker.publish(orderPlaced)
		synctest.Wait()
		require.Equal(t, 1, object.Replicas())
		requireAnswer(t, r, 1, true)
	})
}

func TestSpecStreamFollowsTheSubscriptions(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		fixed := r.keda("order", func(o *kedatest.Options) { o.Metadata["lagThreshold"] = "7" })
		advance(time.Second)
		require.InDelta(t, 10, object.Target(), 0)
		require.InDelta(t, 7, fixed.Target(), 0)

		wider := order
		wider.MaxInFlight = 40
		r.routes.post([]routing.Route{wider})
		synctest.Wait()
		require.InDelta(t, 40, object.Target(), 0)
		require.InDelta(t, 7, fixed.Target(), 0)
		spec, err := r.client.GetMetricSpec(t.Context(), r.ref("order"))
		require.NoError(t, err)
		require.InDelta(t, 40, spec.GetMetricSpecs()[0].GetTargetSizeFloat(), 0, "both calls say the same")
	}, order)
}

func TestThereIsAlwaysASpec(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.broker.breakDown()
		r.start() // without routes
		began := time.Now()
		spec, err := r.client.GetMetricSpec(t.Context(), r.ref("order"))
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Second)
		require.Len(t, spec.GetMetricSpecs(), 1)
		require.InDelta(t, 10, spec.GetMetricSpecs()[0].GetTargetSizeFloat(), 0)
		require.Equal(t, "rouse-backlog", spec.GetMetricSpecs()[0].GetMetricName())
	})
}

func TestBadMetadataIsRefusedByEveryCall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		ctx, ref := t.Context(), r.ref("order", "lagThreshold", "abc")
		calls := map[string]func() error{
			"IsActive": func() error { _, err := r.client.IsActive(ctx, ref); return err },
			"GetMetrics": func() error {
				_, err := r.client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: MetricName})
				return err
			},
			"GetMetricSpec": func() error { _, err := r.client.GetMetricSpec(ctx, ref); return err },
			"StreamIsActive": func() error {
				stream, err := r.client.StreamIsActive(ctx, ref)
				require.NoError(t, err)
				_, err = stream.Recv()
				return err
			},
			"StreamMetricSpec": func() error {
				stream, err := r.client.StreamMetricSpec(ctx, ref)
				require.NoError(t, err)
				_, err = stream.Recv()
				return err
			},
		}
		for name, call := range calls {
			err := call()
			require.Equal(t, codes.InvalidArgument, status.Code(err), name)
			require.ErrorContains(t, err, `metadata lagThreshold is "abc"`, name)
		}
		_, err := r.client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: r.ref("order"), MetricName: "s0-rouse-backlog"})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	})
}

func TestPacerDecidesWhenTrueIsSent(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	sentAt := func(seconds int, edge uint64) pacer { return pacer{last: at(seconds), edge: edge} }
	first := edge{number: 1, at: at(0)}
	second := edge{number: 2, at: at(20)}

	tests := map[string]struct {
		pacer pacer
		view  view
		now   int

		wantDue  bool
		wantWait time.Duration
		wantOwed bool
	}{
		"nothing is sent while idle": {
			view: view{}, now: 5,
		},
		"true is sent at once when active": {
			view: view{active: true, restless: at(0), edge: first}, now: 0, wantDue: true,
		},
		"true is sent at open when active, also with an endpoint": {
			view: view{active: true, ready: true, restless: at(0), edge: first}, now: 50, wantDue: true,
		},
		"true is repeated after a second without an endpoint": {
			pacer: sentAt(0, 1), view: view{active: true, restless: at(0), edge: first}, now: 0,
			wantWait: time.Second,
		},
		"the repetition is due after that second": {
			pacer: sentAt(0, 1), view: view{active: true, restless: at(0), edge: first}, now: 1, wantDue: true,
		},
		"the pause doubles": {
			pacer: sentAt(4, 1), view: view{active: true, restless: at(0), edge: first}, now: 5,
			wantWait: 3 * time.Second,
		},
		"no pause is longer than the heartbeat": {
			pacer: sentAt(20, 1), view: view{active: true, restless: at(0), edge: first}, now: 30,
			wantWait: 2 * time.Second,
		},
		"a function that does not start is repeated at the pace of the heartbeat": {
			pacer: sentAt(60, 1), view: view{active: true, restless: at(0), edge: first}, now: 61,
			wantWait: 11 * time.Second,
		},
		"with an endpoint only the heartbeat goes on": {
			pacer: sentAt(3, 1), view: view{active: true, ready: true, restless: at(0), edge: first}, now: 4,
			wantWait: 11 * time.Second,
		},
		"the heartbeat is due": {
			pacer: sentAt(3, 1), view: view{active: true, ready: true, restless: at(0), edge: first}, now: 15, wantDue: true,
		},
		"losing the endpoint while active sends true at once": {
			pacer: sentAt(3, 1), view: view{active: true, restless: at(4), edge: first}, now: 4, wantDue: true,
		},
		"a new edge at zero sends true at once": {
			pacer: sentAt(19, 1), view: view{active: true, restless: at(20), edge: second}, now: 20, wantDue: true,
		},
		"a new edge of a function that is awake waits for the heartbeat": {
			pacer: sentAt(19, 1), view: view{active: true, ready: true, restless: at(20), edge: second}, now: 20,
			wantWait: 11 * time.Second, wantOwed: true,
		},
		"a held back edge is sent although the backlog is gone, as the cooldown counts from it": {
			pacer: pacer{last: at(19), edge: 1, owed: true}, view: view{ready: true, restless: at(20), edge: second}, now: 31,
			wantDue: true, wantOwed: true,
		},
		"a held back edge is not sent once the function sleeps": {
			pacer: pacer{last: at(19), edge: 1, owed: true}, view: view{restless: at(25), edge: second}, now: 31,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := tc.pacer
			p.options = DefaultOptions().Push
			due, wait := p.next(at(tc.now), tc.view)
			require.Equal(t, tc.wantDue, due)
			require.Equal(t, tc.wantWait, wait)
			require.Equal(t, tc.wantOwed, p.owed)
			p.sent(at(tc.now), tc.view)
			require.False(t, p.owed)
		})
	}
}

func TestActivityFollowsPublishesAndReadings(t *testing.T) {
	t.Parallel()
	const (
		maxAge = 15 * time.Second
		grace  = 2 * time.Second
	)
	start := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	publish := func(s float64) func(*activity) { return func(a *activity) { a.published(at(s)) } }
	read := func(s float64, n uint64) func(*activity) { return func(a *activity) { a.read(at(s), n, grace) } }
	fail := func(a *activity) { a.failed(errors.New("no responders")) }

	tests := map[string]struct {
		threshold    float64
		steps        []func(*activity)
		asked        float64
		disconnected bool

		wantBacklog uint64
		wantError   string
		wantEdges   uint64
		wantCause   cause
	}{
		"nothing is known before the first reading": {
			wantError: "not read yet",
		},
		"a failed first reading gives its reason": {
			steps:     []func(*activity){fail},
			wantError: "no responders",
		},
		"a backlog of 0 is an answer": {
			steps: []func(*activity){read(1, 0)}, asked: 2,
		},
		"a backlog found by reading turns the function active": {
			steps: []func(*activity){read(1, 0), read(2, 7)}, asked: 3,
			wantBacklog: 7, wantEdges: 1, wantCause: causePoll,
		},
		"a publish counts as a backlog of one at once": {
			steps: []func(*activity){read(1, 0), publish(1.5)}, asked: 1.5,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a publish before the first reading counts as well": {
			steps: []func(*activity){publish(1)}, asked: 1,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a reading of 0 right after a publish is not believed": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(1.6, 0)}, asked: 1.7,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a reading of 0 that began before the publish is not believed either": {
			steps: []func(*activity){read(0, 0), publish(1.5), read(1.4, 0)}, asked: 1.7,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a reading of 0 after the grace ends provisional activity": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(3.5, 0)}, asked: 4,
			wantEdges: 1, wantCause: causePublish,
		},
		"a reading confirms provisional activity without a second edge": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(1.6, 1000)}, asked: 2,
			wantBacklog: 1000, wantEdges: 1, wantCause: causePublish,
		},
		"a confirmed backlog that falls to 0 is believed at once": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(1.6, 3), read(1.8, 0)}, asked: 2,
			wantEdges: 1, wantCause: causePublish,
		},
		"each change to active is an edge": {
			steps: []func(*activity){read(1, 1), read(2, 0), read(3, 1), publish(4)}, asked: 4,
			wantBacklog: 1, wantEdges: 2, wantCause: causePoll,
		},
		"idle is not repeated after a failed reading": {
			steps: []func(*activity){read(1, 0), fail}, asked: 1.1,
			wantError: "no responders",
		},
		"idle is not repeated while NATS cannot be reached": {
			steps: []func(*activity){read(1, 0)}, asked: 1.1, disconnected: true,
			wantError: "not connected",
		},
		"active is repeated after a failed reading": {
			steps: []func(*activity){read(1, 5), fail}, asked: 10, disconnected: true,
			wantBacklog: 5, wantEdges: 1, wantCause: causePoll,
		},
		"active is not repeated for ever": {
			steps: []func(*activity){read(1, 5), fail}, asked: 16.5,
			wantError: "last read 16s ago", wantEdges: 1, wantCause: causePoll,
		},
		"idle is not repeated for ever": {
			steps: []func(*activity){read(1, 0)}, asked: 20,
			wantError: "last read 19s ago",
		},
		"a success makes up for a failure": {
			steps: []func(*activity){read(1, 0), fail, read(2, 0)}, asked: 2,
		},
		"a backlog at the threshold is idle": {
			threshold: 5, steps: []func(*activity){read(1, 5)}, asked: 1,
			wantBacklog: 5,
		},
		"a backlog above the threshold is active": {
			threshold: 5, steps: []func(*activity){read(1, 6)}, asked: 1,
			wantBacklog: 6, wantEdges: 1, wantCause: causePoll,
		},
		"one publish is not enough when the threshold is higher": {
			threshold: 5, steps: []func(*activity){read(1, 0), publish(2)}, asked: 2,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := activity{threshold: tc.threshold}
			for _, step := range tc.steps {
				step(&a)
			}
			backlog, err := a.answer(at(tc.asked), maxAge, !tc.disconnected)
			if tc.wantError != "" {
				require.ErrorIs(t, err, errUnknown)
				require.ErrorContains(t, err, tc.wantError)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tc.wantBacklog, backlog)
			require.Equal(t, tc.wantEdges, a.edge.number)
			require.Equal(t, tc.wantCause, a.edge.cause)
		})
	}
}
