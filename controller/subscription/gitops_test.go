package subscription

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

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

func TestACommitIsInForceAndNeverDrifts(t *testing.T) {
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
	w.awaitStatus(sub, "its sink may come with the same commit", says("Ready", eventingv1alpha2.ReasonSinkMissing))
	require.Contains(t, gitops.RequireInProgress(t, sub), "not found in the cluster")

	w.createSink()
	w.awaitStatus(sub, "it is in force", says("Ready", eventingv1alpha2.ReasonServing))
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
	w.awaitStatus(sub, "somebody has to act", says("Stalled", eventingv1alpha2.ReasonInvalid))
	require.Contains(t, gitops.RequireFailed(t, sub), "spec.typeMatching")

	require.NoError(t, commit.Apply(t.Context(), w))
	w.awaitStatus(sub, "it is in force again", says("Ready", eventingv1alpha2.ReasonServing))
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
		"NATS will never accept it":      {outcome{inactive: "never", stalled: true}, gitops.RequireFailed, "never"},
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
