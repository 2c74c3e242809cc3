package scaler

import (
	"context"
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
