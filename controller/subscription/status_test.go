package subscription

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestSetStatus(t *testing.T) {
	t.Parallel()
	route := routing.Route{Types: []routing.TypeMapping{
		{Original: "a.b", Clean: "a.b", ConsumerName: "one"},
		{Original: "c d.e", Clean: "cd.e", ConsumerName: "two"},
	}}
	tests := map[string]struct {
		found     outcome
		wantReady bool
		want      []eventingv1alpha2.Condition
		wantTypes int
	}{
		"a healthy Subscription has two conditions": {
			found: outcome{route: route}, wantReady: true, wantTypes: 2,
			want: []eventingv1alpha2.Condition{
				{
					Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors",
					Message: `Event types without the characters that subjects cannot have: "c d.e" as "cd.e"`,
				},
				{Type: "Subscription active", Status: "True", Reason: "NATS Subscription active"},
			},
		},
		"an invalid one has one condition and no types": {
			found: outcome{invalid: "no"},
			want: []eventingv1alpha2.Condition{
				{Type: "Subscription spec valid", Status: "False", Reason: "Subscription spec has validation errors", Message: "no"},
			},
		},
		"a paused one is active and reports it with the changed types": {
			found: outcome{route: routing.Route{Types: route.Types, Paused: true}}, wantReady: true, wantTypes: 2,
			want: []eventingv1alpha2.Condition{
				{
					Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors",
					Message: `Event types without the characters that subjects cannot have: "c d.e" as "cd.e"`,
				},
				{
					Type: "Subscription active", Status: "True", Reason: "NATS Subscription active",
					Message: "Paused: events are kept and not delivered until spec.paused is false",
				},
			},
		},
		"a paused one without NATS reports why it is not active": {
			found: outcome{route: routing.Route{Types: route.Types[:1], Paused: true}, inactive: "away"}, wantTypes: 1,
			want: []eventingv1alpha2.Condition{
				{Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors"},
				{Type: "Subscription active", Status: "False", Reason: "NATS Subscription not active", Message: "away"},
			},
		},
		"a sink of dead letters has an additional condition": {
			found: outcome{route: routing.Route{Types: route.Types[:1], DeadLetters: &routing.Route{}}}, wantTypes: 1, wantReady: true,
			want: []eventingv1alpha2.Condition{
				{Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors"},
				{Type: "Subscription active", Status: "True", Reason: "NATS Subscription active"},
				{Type: "Dead letter sink active", Status: "True", Reason: "Dead letters are delivered"},
			},
		},
		"a missing dead-letter sink does not affect readiness": {
			found: outcome{route: routing.Route{Types: route.Types[:1], DeadLetters: &routing.Route{}}, deadLettersBlocked: "gone"}, wantTypes: 1, wantReady: true,
			want: []eventingv1alpha2.Condition{
				{Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors"},
				{Type: "Subscription active", Status: "True", Reason: "NATS Subscription active"},
				{Type: "Dead letter sink active", Status: "False", Reason: "Dead letters wait", Message: "gone"},
			},
		},
		"one without NATS keeps its types": {
			found: outcome{route: routing.Route{Types: route.Types[:1]}, inactive: "away"}, wantTypes: 1,
			want: []eventingv1alpha2.Condition{
				{Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors"},
				{Type: "Subscription active", Status: "False", Reason: "NATS Subscription not active", Message: "away"},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			sub := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
			setStatus(sub, tc.found, now)
			require.Equal(t, tc.wantReady, sub.Status.Ready)
			require.Len(t, sub.Status.Types, tc.wantTypes)
			require.Len(t, sub.Status.Backend.Types, tc.wantTypes)
			for i := range tc.want {
				tc.want[i].LastTransitionTime = metav1.NewTime(now)
			}
			require.Equal(t, tc.want, own(sub.Status))
			require.Equal(t, int64(7), sub.Status.ObservedGeneration)
			require.Equal(t, tc.wantReady, sub.Status.Conditions[len(tc.want)].Status == corev1.ConditionTrue, "Ready must agree")

			content, err := json.Marshal(sub.Status)
			require.NoError(t, err)
			require.NotContains(t, string(content), "null")

			before := sub.DeepCopy()
			setStatus(sub, tc.found, now.Add(time.Hour))
			require.Equal(t, before.Status, sub.Status, "the same outcome must not change the status, including its times")
		})
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	var stalled *kube.StalledError
	var waiting *kube.WaitingError
	require.NoError(t, classify(nil))
	require.ErrorAs(t, classify(&broker.APIError{Code: 400}), &stalled)
	require.ErrorAs(t, classify(broker.ErrOverlappingSubjects), &stalled)
	require.ErrorAs(t, classify(broker.ErrNotConnected), &waiting)
	require.ErrorAs(t, classify(broker.ErrNoStream), &waiting)
	require.ErrorAs(t, classify(fmt.Errorf("%w: %w", broker.ErrTooManyConsumers, &broker.APIError{Code: 400})), &waiting, "a limit may be raised")
	require.Equal(t, broker.ErrStorageFull, classify(broker.ErrStorageFull))
}

func TestOptions(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	require.NoError(t, flags.Validate(&options))
	options.MaxConcurrentReconciles, options.Stream.Name = 0, ""
	err := flags.Validate(&options)
	require.ErrorContains(t, err, "--subscription-concurrent-reconciles must be at least 1, is 0")
	require.ErrorContains(t, err, "--stream-name")
}

func TestPause(t *testing.T) {
	t.Parallel()
	require.Equal(t, sweepInterval, pause(nil))
	require.Equal(t, sweepInterval, pause(errors.Join(broker.ErrNotConnected, broker.ErrNotConnected)), "the connect wakes the sweeper")
	require.Equal(t, retryInterval, pause(broker.ErrInsufficientResources))
}

func TestAnExcessiveMaxInFlightIsCappedAndReported(t *testing.T) {
	t.Parallel()
	sub := &eventingv1alpha2.Subscription{}
	sub.Spec.Config = map[string]string{"maxInFlightMessages": "1000000"}
	setStatus(sub, outcome{route: routing.Route{MaxInFlight: eventingv1alpha2.LargestMaxInFlight}}, time.Now())
	require.True(t, sub.Status.Ready)
	require.Equal(t, "maxInFlightMessages counts as 10000, which is the most", sub.Status.Conditions[0].Message)
}

const committed = `
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata:
  name: orders
spec:
  sink: http://price.shop.svc.cluster.local
  source: shop
  types: [order.received.v1]
`

func TestCommittedAPIRuleBecomesCurrentWithoutDrift(t *testing.T) {
	w := newFixture(t)
	written := func(more string) gitops.Commit {
		commit := gitops.NewCommit(t, w.namespace, committed+more)
		spec := commit[0].Object["spec"].(map[string]any)
		spec["sink"] = "http://price." + w.namespace + ".svc.cluster.local"
		return commit
	}
	commit, sub := written(""), &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders"}}
	require.NoError(t, commit.Apply(t.Context(), w))
	says := func(kind eventingv1alpha2.ConditionType, reason eventingv1alpha2.ConditionReason) func(eventingv1alpha2.SubscriptionStatus) bool {
		return func(status eventingv1alpha2.SubscriptionStatus) bool {
			for _, condition := range status.Conditions {
				if condition.Type == kind {
					return condition.Reason == reason && status.ObservedGeneration == sub.Generation
				}
			}
			return false
		}
	}
	w.awaitStatus(sub, "its sink may be part of the same commit", says("Ready", eventingv1alpha2.ReasonSinkMissing))
	require.Contains(t, gitops.RequireInProgress(t, sub), "not found in the cluster")

	w.createSink()
	w.awaitStatus(sub, "it is ready", says("Ready", eventingv1alpha2.ReasonServing))
	gitops.RequireCurrent(t, sub)
	require.Equal(t, []string{eventingv1alpha2.Finalizer}, sub.Finalizers, "which is not in the commit")

	// Its controller loses NATS and finds it again meanwhile.
	commit.RequireNoDrift(t, w, 3, time.Second, func(int) { w.nats.Restart() })
	w.awaitReady(sub)
	commit.RequireQuiet(t, w, 3, time.Second)

	paused := written("  paused: true\n")
	require.NoError(t, paused.Apply(t.Context(), w))
	w.awaitStatus(sub, "it is paused", says("Ready", eventingv1alpha2.ReasonPaused))
	gitops.RequireCurrent(t, sub)

	require.NoError(t, written("  typeMatching: fuzzy\n").Apply(t.Context(), w))
	w.awaitStatus(sub, "a user has to act", says("Stalled", eventingv1alpha2.ReasonInvalid))
	require.Contains(t, gitops.RequireFailed(t, sub), "spec.typeMatching")

	require.NoError(t, commit.Apply(t.Context(), w))
	w.awaitStatus(sub, "it is ready again", says("Ready", eventingv1alpha2.ReasonServing))
	gitops.RequireCurrent(t, sub)
}

func TestReadyAndStalledOfASubscription(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		found         outcome
		requireHealth func(testing.TB, runtime.Object) string
		wantMessage   string
	}{
		"events are delivered":           {outcome{}, gitops.RequireCurrent, "Events are delivered"},
		"it is paused":                   {outcome{route: routing.Route{Paused: true}}, gitops.RequireCurrent, pausedMessage},
		"its dead letters wait":          {outcome{route: routing.Route{DeadLetters: &routing.Route{}}, deadLettersBlocked: "gone"}, gitops.RequireCurrent, "Events are delivered"},
		"its sink is missing":            {outcome{invalid: "gone"}, gitops.RequireInProgress, "gone"},
		"its spec is invalid":            {outcome{invalid: "no", stalled: true}, gitops.RequireFailed, "no"},
		"NATS is away":                   {outcome{inactive: "away"}, gitops.RequireInProgress, "away"},
		"NATS rejects it permanently":    {outcome{inactive: "never", stalled: true}, gitops.RequireFailed, "never"},
		"NATS is away, and it is paused": {outcome{route: routing.Route{Paused: true}, inactive: "away"}, gitops.RequireInProgress, "away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			setStatus(sub, tc.found, time.Unix(100, 0))
			require.Equal(t, tc.wantMessage, tc.requireHealth(t, sub))
		})
	}
	require.True(t, kube.IsStalled(kube.Stalled(errors.New("x"))))
	require.False(t, kube.IsStalled(kube.Waiting(errors.New("x"), time.Second)))
}

func TestDroppedDeadLettersStandBeforeReady(t *testing.T) {
	t.Parallel()
	sub := &eventingv1alpha2.Subscription{}
	setStatus(sub, outcome{}, time.Unix(100, 0))
	require.Equal(t, 2, beforeSummary(sub.Status.Conditions))
	require.Equal(t, 1, beforeSummary(sub.Status.Conditions[:1]), "a status of an earlier version has no Ready")
}

func TestInvalidMessage(t *testing.T) {
	t.Parallel()
	require.Equal(t, `Subscription validation failed: spec.sink: Invalid value: "": must not be empty`,
		invalidMessage(field.ErrorList{field.Invalid(field.NewPath("spec", "sink"), "", "must not be empty")}))
}

func TestMissingSinkMessage(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Sink validation failed: service price.shop not found in the cluster",
		missingSinkMessage(types.NamespacedName{Namespace: "shop", Name: "price"}))
}
