package scaler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestAFunctionThatKEDAForgotIsNotAskedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.awake(orderFunction, true)
		r.requireActive(true, "")
		advance(65 * time.Second)
		reads := r.pods.count()
		require.NotZero(r.t, reads)
		advance(10 * time.Minute)
		require.Equal(r.t, reads, r.pods.count())
	})
}

func TestPodsThatCannotBeAskedAreAnErrorAndNeverZero(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.awake(orderFunction, true)
		r.listings.post(true)
		advance(time.Second)
		r.pods.change(func(p *fakePods) { p.err = errors.New("pod 10.0.0.1:8080 has not answered in time") })
		_, err := r.calls()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "function shop/order: calls over HTTP are not known: pod 10.0.0.1:8080 has not answered in time")
		_, err = r.isActive()
		require.Equal(t, codes.Unavailable, status.Code(err))
		requireAnswer(t, r, 0, false) // without HTTP
		require.Len(t, r.logs.containing("calls of pods cannot be read"), 1)
		require.NotZero(t, value(t, r.registry, "rouse_scaler_pod_load_errors_total"))

		r.broker.publish(orderPlaced)
		synctest.Wait()
		r.requireActive(true, "there is a backlog")
		_, err = r.calls()
		require.Error(t, err)

		r.broker.set(order, broker.Backlog{})
		r.pods.change(func(p *fakePods) { p.err = nil })
		advance(20 * time.Second)
		r.requireActive(false, "")
		require.Len(t, r.logs.containing("calls of pods can be read again"), 1)
	}, order)
}

func TestPodsThatStallDelayNoAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.awake(orderFunction, true)
		r.requireActive(true, "")
		r.pods.change(func(p *fakePods) { p.hangs = true })
		advance(2 * time.Second)
		began := time.Now()
		_, err := r.isActive()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

func TestNoPodIsAskedAtZeroReplicas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.keda("order", wokenByHTTP)
		advance(time.Hour)
		require.Zero(r.t, r.pods.count())
	})
}

func TestPodsWhoseCallsCannotBeCountedAreNotAsked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		ref := r.ref("order", "httpConcurrency", "50", "httpCounted", "false")
		active := func() bool {
			answer, err := r.client.IsActive(t.Context(), ref)
			require.NoError(t, err)
			return answer.GetResult()
		}
		r.awake(orderFunction, true)
		r.listings.post(true)
		advance(time.Second)
		require.True(t, active())
		advance(20 * time.Second)
		require.False(t, active(), "nothing waits, and the gateways are listed")
		r.gateways.take(orderFunction, true)
		require.True(t, active())
		require.Zero(t, r.pods.count())
		require.NotEmpty(t, r.idleness.of(orderFunction))
	})
}

func TestCallsThatComeTogetherShareAReadingOfPods(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.awake(orderFunction, true)
		advance(time.Second)
		done := make(chan error)
		for range 10 {
			go func() {
				_, err := r.isActive()
				done <- err
			}()
			go func() {
				_, err := r.calls()
				done <- err
			}()
		}
		for range 20 {
			require.NoError(t, <-done)
		}
		require.Equal(t, 1, r.pods.count())
		advance(time.Second)
		r.requireActive(true, "")
		require.Equal(t, 2, r.pods.count(), "KEDA's next poll reads them again")
	})
}

func TestAPodThatIsNewIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.requireActive(false, "")
		r.awake(orderFunction, true)
		r.pods.run(2)
		synctest.Wait()
		calls, err := r.calls()
		require.NoError(t, err)
		require.InDelta(t, 2, calls, 0)
	})
}

func TestAReadingIsOfThePodsThatThereAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var readings podReadings
		var asked []int
		for _, pods := range []int{1, 1, 2, 2, 1} {
			_, err := readings.read(t.Context(), make([]routing.Endpoint, pods),
				func(_ context.Context, endpoints []routing.Endpoint) (map[string]activation.PodLoad, error) {
					asked = append(asked, len(endpoints))
					return nil, nil
				})
			require.NoError(t, err)
		}
		require.Equal(t, []int{1, 2, 1}, asked)
	})
}

type silentEndpoints struct{}

func (silentEndpoints) Watch(ctx context.Context, _ types.NamespacedName, _ int32, _ func([]routing.Endpoint)) error {
	<-ctx.Done()
	return nil
}

func TestWithoutEndpointsBeingKnownCallsAreNotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.located = silentEndpoints{}
		r.routes.post(nil)
		r.start()
		_, err := r.isActive()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "endpoints are not known yet")
		requireAnswer(t, r, 0, false) // without HTTP
	})
}
