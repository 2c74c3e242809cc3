package scaler

import (
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

var orderFunction = types.NamespacedName{Namespace: shop, Name: "order"}

// wokenByHTTP is a trigger whose calls count.
func wokenByHTTP(o *kedatest.Options) { o.Metadata["httpConcurrency"] = "50" }

func (r *rig) httpRef() *pb.ScaledObjectRef { return r.ref("order", "httpConcurrency", "50") }

// calls is what KEDA asks for the second metric.
func (r *rig) calls() (float64, error) {
	answer, err := r.client.GetMetrics(r.t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: r.httpRef(), MetricName: "http-concurrency"})
	if err != nil {
		return 0, err
	}
	return answer.GetMetricValues()[0].GetMetricValueFloat(), nil
}

func (r *rig) isActive() (bool, error) {
	answer, err := r.client.IsActive(r.t.Context(), r.httpRef())
	return answer.GetResult(), err
}

func (r *rig) requireActive(want bool, reason string) {
	r.t.Helper()
	active, err := r.isActive()
	require.NoError(r.t, err, reason)
	require.Equal(r.t, want, active, reason)
}

func TestARequestAtAGatewayWakesTheFunctionAtOnce(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"it waits": true, "it was refused": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(r *rig) { // a Function without Subscriptions
				t := r.t
				object := r.keda("order", func(o *kedatest.Options) { seldom(o); wokenByHTTP(o) })
				advance(20 * time.Second)
				require.Zero(t, object.Replicas())

				called := time.Now()
				r.gateways.take(orderFunction, waits)
				synctest.Wait()
				require.Equal(t, 1, object.Replicas())
				require.Equal(t, kedatest.Push, object.Transitions()[0].Reason)
				require.Equal(t, called, object.Transitions()[0].At, "no timer lies between the request and the wake")
				require.Contains(t, r.logs.containing("activation sent")[0], `"cause"="request"`)
				require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_activations_total"), 0)
				advance(2 * time.Second)
				require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_ready_endpoint_seconds"), 0)
			})
		})
	}
}

func TestARequestThatWaitsSinceBeforeKEDAAskedWakesTheFunction(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.gateways.take(orderFunction, true)
		object := r.keda("order", func(o *kedatest.Options) { seldom(o); wokenByHTTP(o) })
		require.Equal(r.t, 1, object.Replicas())
		require.Len(r.t, r.logs.containing("activation sent"), 1)
	})
}

func TestARequestWakesTheFunctionWhileNATSIsDown(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(order, broker.Backlog{AckPending: 1})
		object := r.keda("order", func(o *kedatest.Options) { seldom(o); wokenByHTTP(o); o.OnReplicas = nil })
		advance(time.Second)
		r.broker.breakDown()
		advance(time.Minute) // what was read of the backlog is too old by now
		before, _ := object.Pushed()
		_, err := r.isActive()
		require.Error(t, err)

		r.gateways.take(orderFunction, true)
		synctest.Wait()
		after, _ := object.Pushed()
		require.Equal(t, before+1, after)
		r.requireActive(true, "what is known to be work needs nothing else to be known")
	}, order)
}

func TestHTTPAddsAMetricWhereTheTriggerCountsIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		names := func(ref *pb.ScaledObjectRef) (found []string) {
			unary, err := r.client.GetMetricSpec(t.Context(), ref)
			require.NoError(t, err)
			stream, err := r.client.StreamMetricSpec(t.Context(), ref)
			require.NoError(t, err)
			streamed, err := stream.Recv()
			require.NoError(t, err)
			require.Len(t, streamed.GetMetricSpecs(), len(unary.GetMetricSpecs()))
			for i, spec := range unary.GetMetricSpecs() {
				require.Equal(t, spec.String(), streamed.GetMetricSpecs()[i].String())
				found = append(found, spec.GetMetricName())
			}
			return found
		}
		require.Equal(t, []string{"rouse-backlog"}, names(r.ref("order")))
		require.Equal(t, []string{"rouse-backlog", "http-concurrency"}, names(r.httpRef()))
		specs, err := r.client.GetMetricSpec(t.Context(), r.httpRef())
		require.NoError(t, err)
		require.InDelta(t, 50, specs.GetMetricSpecs()[1].GetTargetSizeFloat(), 0)

		_, err = r.client.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: r.ref("order"), MetricName: "http-concurrency"})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	})
}

func TestATriggerThatIsChangedTakesEffect(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		requireAnswer(t, r, 0, false)
		r.gateways.take(orderFunction, true)
		requireAnswer(t, r, 0, false)
		r.requireActive(true, "with HTTP")
		requireAnswer(t, r, 0, false)
	})
}

func TestWithoutGatewaysHTTPCountsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.http = nil
		r.routes.post(nil)
		r.start()
		r.requireActive(false, "")
		specs, err := r.client.GetMetricSpec(t.Context(), r.httpRef())
		require.NoError(t, err)
		require.Len(t, specs.GetMetricSpecs(), 1)
	})
}

// KEDA polls seldom, and asks for the HPA in between. What the HPA's call found must not be lost to the cooldown.
func TestGatewaysThatAreNotKnownAreAnErrorAndNeverZero(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.requireActive(false, "")
		r.gateways.fail(errDown)
		_, err := r.isActive()
		require.Equal(t, codes.Unavailable, status.Code(err))
		_, err = r.calls()
		require.Equal(t, codes.Unavailable, status.Code(err))

		r.gateways.take(orderFunction, true)
		r.requireActive(true, "what waits at another gateway is known")
	})
}

func TestEventsAreNoCallsOverHTTP(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(order, broker.Backlog{Pending: 5, AckPending: 2})
		r.awake(orderFunction, true)
		advance(3 * time.Second)
		r.pods.change(func(p *fakePods) { p.load = activation.PodLoad{Requests: 9, Running: 3, ViaEventbridge: 2} })
		requireAnswer(t, r, 7, true)
		calls, err := r.calls()
		require.NoError(t, err)
		require.InDelta(t, 1, calls, 0)
	}, order)
}

func TestACallerThatForgesTheHeaderKeepsTheFunctionAwake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.awake(orderFunction, true)
		r.listings.post(true)
		r.pods.change(func(p *fakePods) {
			p.load = activation.PodLoad{Requests: 2, Running: 2, ViaGateway: 1, ViaEventbridge: 1}
		})
		advance(time.Minute)
		calls, err := r.calls()
		require.NoError(r.t, err)
		require.InDelta(r.t, 2, calls, 0)
		r.requireActive(true, "")
	})
}

func TestReplicasFollowTheMetricThatWantsMore(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(order, broker.Backlog{Pending: 15})
		object := r.keda("order", wokenByHTTP)
		advance(30 * time.Second)
		require.Equal(t, 2, object.Replicas(), "the backlog")
		r.pods.run(180) // of the one endpoint that tests have
		advance(30 * time.Second)
		require.Equal(t, 4, object.Replicas(), "the calls")
	}, order)
}

func TestCallersOfAFunctionThatCannotStartCostFewActivations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		object := r.keda("order", func(o *kedatest.Options) { wokenByHTTP(o); o.OnReplicas = nil })
		for range 100 {
			r.gateways.take(orderFunction, false)
			advance(6 * time.Second)
		}
		received, _ := object.Pushed()
		require.Less(r.t, received, 60+600/6+10)
		require.Len(r.t, r.logs.containing("activation sent"), 1)

		advance(10 * time.Minute)
		r.gateways.take(orderFunction, false)
		synctest.Wait()
		require.Len(r.t, r.logs.containing("activation sent"), 2)
	})
}

func TestTheEndpointsOfAFunctionThatHTTPWakesAreThoseOfItsService(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode   httpMode
		routes []routing.Route
		want   int32
		leads  bool
	}{
		"without Subscriptions":                  {mode: httpEverywhere, want: activation.OnlyPortOfService, leads: true},
		"a Subscription that names another port": {mode: httpAtGateways, routes: []routing.Route{{Port: 81}}, want: activation.OnlyPortOfService, leads: true},
		"HTTP counts nothing":                    {routes: []routing.Route{{Port: 81}}, want: 81, leads: true},
		"nothing leads to it":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &function{target: target{http: tc.mode}}
			port, leads := f.port(tc.routes)
			require.Equal(t, tc.want, port)
			require.Equal(t, tc.leads, leads)
		})
	}
}

func TestAFunctionStaysAwakeForCallsThatHaveLeftItsBacklog(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		ask := func() float64 {
			value, _, err := r.ask(r.ref("order"))
			require.NoError(t, err)
			return value
		}
		require.Zero(t, ask())
		r.broker.publish(orderPlaced)
		advance(time.Second)
		require.InDelta(t, 1, ask(), 0)

		r.broker.change(func() { r.broker.calls = map[types.NamespacedName]uint64{order.Subscription: 3} })
		r.broker.set(order, broker.Backlog{})
		advance(10 * time.Minute)
		require.InDelta(t, 3, ask(), 0)
		r.broker.set(order, broker.Backlog{Pending: 1, AckPending: 1})
		advance(time.Minute)
		require.InDelta(t, 5, ask(), 0, "they count for its replicas, too")

		r.broker.set(order, broker.Backlog{})
		r.broker.change(func() { r.broker.calls = nil })
		advance(time.Minute)
		require.Zero(t, ask())
	}, order)
}

func TestAScalerThatStartsCountsTheCallsThatRun(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.change(func() { r.broker.calls = map[types.NamespacedName]uint64{order.Subscription: 1} })
		advance(time.Minute)
		value, active, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		require.InDelta(t, 1, value, 0)
		require.True(t, active)
	}, order)
}

func TestDetachedCallsOfASleepingFunctionAreNotCounted(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		_, _, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		advance(time.Minute)
		count := func() (reads, callReads int) {
			r.broker.change(func() { reads, callReads = r.broker.reads, r.broker.callReads })
			return reads, callReads
		}
		reads, callReads := count()
		advance(time.Hour)
		readsLater, callReadsLater := count()
		require.Greater(t, readsLater, reads)
		require.Equal(t, callReads, callReadsLater)
	}, order)
}

func TestUncountableDetachedCallsAreAnError(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.publish(orderPlaced)
		advance(time.Second)
		r.broker.set(order, broker.Backlog{})
		r.broker.change(func() { r.broker.callErr = errDown })
		advance(time.Minute)
		_, _, err := r.ask(r.ref("order"))
		require.Error(t, err, "KEDA keeps the pods that there are")
		r.broker.change(func() { r.broker.callErr = nil })
		advance(time.Minute)
		value, _, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		require.Zero(t, value)
	}, order)
}

func TestCallsThatPodsRunKeepTheFunctionAwake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.listings.post(true)
		object := r.keda("order", wokenByHTTP)
		r.gateways.take(orderFunction, true)
		advance(2 * time.Second)
		r.gateways.finish(orderFunction)
		r.pods.run(3) // on connections that lead to the pod
		advance(10 * time.Minute)
		require.Equal(t, 1, object.Replicas())
		calls, err := r.calls()
		require.NoError(t, err)
		require.InDelta(t, 3, calls, 0)

		r.pods.run(0)
		ended := time.Now()
		require.NoError(t, object.Await(t.Context(), func(o *kedatest.ScaledObject) bool { return o.Replicas() == 0 }))
		require.Greater(t, time.Since(ended), time.Minute, "the cooldown")
		require.Less(t, time.Since(ended), 2*time.Minute)
	})
}

func TestShortCallsBetweenPollsKeepTheFunctionAwake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.listings.post(true)
		object := r.keda("order", func(o *kedatest.Options) { wokenByHTTP(o); o.PollingInterval = 30 * time.Second })
		r.gateways.take(orderFunction, false)
		advance(2 * time.Second)
		for range 60 {
			r.pods.run(1)
			r.pods.run(0)
			advance(25 * time.Second)
		}
		require.Len(t, object.Transitions(), 1, "it never falls asleep")
		received, _ := object.Pushed()
		require.Less(t, received, 60*3, "and costs heartbeats")
	})
}

func TestAFunctionWithPodsSleepsOnlyWhenItsGatewaysAreListed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.awake(orderFunction, true)
		r.requireActive(true, "not listed")
		advance(10 * time.Minute)
		r.requireActive(true, "still not")

		r.listings.post(true)
		advance(14 * time.Second)
		r.requireActive(true, "not for the grace")
		advance(time.Second)
		r.requireActive(false, "for the grace")

		r.listings.post(false)
		synctest.Wait()
		r.requireActive(true, "not listed any more")
		r.listings.post(true)
		advance(15 * time.Second)
		r.requireActive(false, "listed again")

		r.gateways.take(orderFunction, false)
		advance(14 * time.Second)
		r.requireActive(true, "it was called within the grace")
		advance(time.Second)
		r.requireActive(false, "")

		r.listings.post(false)
		r.awake(orderFunction, false)
		synctest.Wait()
		r.requireActive(false, "without pods")
	})
}

func TestIdlenessIsAnnouncedWhileAFunctionHasPods(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		during := func(d time.Duration) int {
			before := len(r.idleness.of(orderFunction))
			advance(d)
			return len(r.idleness.of(orderFunction)) - before
		}
		r.keda("order", func(o *kedatest.Options) { wokenByHTTP(o); o.OnReplicas = nil })
		require.Zero(t, during(time.Minute), "it has no pods")

		r.awake(orderFunction, true)
		require.GreaterOrEqual(t, during(time.Minute), 15, "each 3 s, as 5 of them keep gateways listed")
		require.LessOrEqual(t, during(time.Minute), 20)

		r.pods.run(1)
		advance(4 * time.Second)
		require.Zero(t, during(time.Minute), "a call runs")
		r.pods.run(0)
		advance(10 * time.Second)
		require.NotZero(t, during(time.Minute))

		r.gateways.take(orderFunction, true)
		require.Zero(t, during(time.Minute), "a request waits")
		r.gateways.finish(orderFunction)
		advance(10 * time.Second)

		r.pods.change(func(p *fakePods) { p.err = errDown })
		require.Zero(t, during(time.Minute), "its calls are not known")
	})
}

func TestAFunctionWithABacklogIsNotAnnouncedAsIdle(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.set(order, broker.Backlog{Pending: 1})
		r.awake(orderFunction, true)
		r.keda("order", func(o *kedatest.Options) { wokenByHTTP(o); o.OnReplicas = nil })
		advance(time.Minute)
		require.Empty(r.t, r.idleness.of(orderFunction))
	}, order)
}
