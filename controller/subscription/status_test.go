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

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
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
		"a paused one is active and says so, beside the types that are changed": {
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
		"a paused one without NATS says why it is not active": {
			found: outcome{route: routing.Route{Types: route.Types[:1], Paused: true}, inactive: "away"}, wantTypes: 1,
			want: []eventingv1alpha2.Condition{
				{Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors"},
				{Type: "Subscription active", Status: "False", Reason: "NATS Subscription not active", Message: "away"},
			},
		},
		"one with a sink of dead letters has a condition more": {
			found: outcome{route: routing.Route{Types: route.Types[:1], DeadLetters: &routing.Route{}}}, wantTypes: 1, wantReady: true,
			want: []eventingv1alpha2.Condition{
				{Type: "Subscription spec valid", Status: "True", Reason: "Subscription spec has no validation errors"},
				{Type: "Subscription active", Status: "True", Reason: "NATS Subscription active"},
				{Type: "Dead letter sink active", Status: "True", Reason: "Dead letters are delivered"},
			},
		},
		"one whose sink of dead letters is missing is ready": {
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
			require.Equal(t, tc.wantReady, sub.Status.Conditions[len(tc.want)].Status == corev1.ConditionTrue, "Ready says the same")

			content, err := json.Marshal(sub.Status)
			require.NoError(t, err)
			require.NotContains(t, string(content), "null")

			before := sub.DeepCopy()
			setStatus(sub, tc.found, now.Add(time.Hour))
			require.Equal(t, before.Status, sub.Status, "the same outcome must change nothing, not even a time")
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
	require.NoError(t, options.Validate())
	options.MaxConcurrentReconciles, options.Stream.Name = 0, ""
	err := options.Validate()
	require.ErrorContains(t, err, "--subscription-concurrent-reconciles 0")
	require.ErrorContains(t, err, "--stream-name")
}

func TestPause(t *testing.T) {
	t.Parallel()
	require.Equal(t, sweepInterval, pause(nil))
	require.Equal(t, sweepInterval, pause(errors.Join(broker.ErrNotConnected, broker.ErrNotConnected)), "the connect wakes the sweeper")
	require.Equal(t, retryInterval, pause(broker.ErrInsufficientResources))
}

func TestALimitThatIsTooLargeIsCutAndTheStatusSaysSo(t *testing.T) {
	t.Parallel()
	sub := &eventingv1alpha2.Subscription{}
	sub.Spec.Config = map[string]string{"maxInFlightMessages": "1000000"}
	setStatus(sub, outcome{route: routing.Route{MaxInFlight: eventingv1alpha2.LargestMaxInFlight}}, time.Now())
	require.True(t, sub.Status.Ready)
	require.Equal(t, "maxInFlightMessages counts as 10000, which is the most", sub.Status.Conditions[0].Message)
}
