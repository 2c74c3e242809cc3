package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

const committed = `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata:
  name: price
  labels: {team: shop}
  annotations: {rouse.run/cooldown-period: "30"}
spec:
  runtime: nodejs22
  scaleConfig: {minReplicas: 0, maxReplicas: 5}
  source:
    inline:
      source: "module.exports = { main: () => 'ok' }"
`

func obeysGit(w *fixture) {
	t := w.t
	commit := gitops.NewCommit(t, w.namespace, committed)
	require.NoError(t, commit.Apply(t.Context(), w))
	fn := newFunction(func(fn *v1alpha2.Function) { fn.Namespace = w.namespace })
	deployment, object := w.deployment(fn), w.scaledObject(fn)
	updateStatus(w, object, func(object *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions"))
	})
	rolledOut := func(count int32) {
		w.scale(deployment, count)
		updateStatus(w, deployment, func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: count, ReadyReplicas: count, AvailableReplicas: count, UpdatedReplicas: count,
				Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: reasonReplicasAvailable},
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reasonRolloutDone},
				},
			}
		})
	}
	w.awaitCondition(fn, kube.ConditionReady, metav1.ConditionUnknown, v1alpha2.ReasonDeploymentCreated)
	gitops.RequireInProgress(t, fn)
	rolledOut(0)
	condition := w.awaitCondition(fn, kube.ConditionReady, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)
	require.Contains(t, condition.Message, "sleeps at zero")
	gitops.RequireCurrent(t, fn)

	// The Function wakes and sleeps meanwhile, as with KEDA.
	commit.RequireNoDrift(t, w, 4, time.Second, func(round int) { rolledOut(int32(round % 2)) })
	commit.RequireQuiet(t, w, 3, time.Second)

	broken := gitops.NewCommit(t, w.namespace, committed+`      dependencies: '{"dependencies":{"left-pad" "1"}}'`)
	require.NoError(t, broken.Apply(t.Context(), w))
	condition = w.awaitCondition(fn, kube.ConditionStalled, metav1.ConditionTrue, v1alpha2.ReasonInvalidSpec)
	require.Contains(t, condition.Message, "line 1, column 29")
	require.Contains(t, gitops.RequireFailed(t, fn), "line 1, column 29")
	broken.RequireQuiet(t, w, 2, time.Second)

	require.NoError(t, commit.Apply(t.Context(), w))
	await(w, fn, "it is in force again", func(fn *v1alpha2.Function) bool {
		ready := w.conditionOf(fn, kube.ConditionReady)
		return ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == fn.Generation
	})
	gitops.RequireCurrent(t, fn)
}

func (w *fixture) conditionOf(fn *v1alpha2.Function, kind string) metav1.Condition {
	for _, condition := range fn.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return metav1.Condition{}
}

func TestReadyAndStalledOfAFunction(t *testing.T) {
	t.Parallel()
	failing := func(err error) func(*scope) { return func(s *scope) { s.err = err } }
	unbuilt := func(build conditionUpdate) func(*scope) {
		return func(s *scope) { s.planned, s.build, s.code.Image = true, build, "" }
	}
	unknown := conditionUpdate{status: metav1.ConditionUnknown, reason: v1alpha2.ReasonJobRunning, message: "it is built"}
	failedBuild := func(stalls bool) conditionUpdate {
		return conditionUpdate{status: metav1.ConditionFalse, reason: v1alpha2.ReasonJobFailed, message: "no", stalls: stalls}
	}
	invalid := &failure{condition: v1alpha2.ConditionConfigurationReady, reason: v1alpha2.ReasonInvalidSpec, message: "no"}
	refused := &failure{condition: v1alpha2.ConditionRunning, reason: v1alpha2.ReasonDeploymentFailed, message: "no"}
	scales := func(s *scope) { scaled(0, 5)(s.fn) }
	stalledBefore := func(s *scope) {
		s.applied = false
		s.fn.Status.Conditions = []metav1.Condition{
			{Type: v1alpha2.ConditionRunning, Status: "False", Reason: "HandlerFailed", Message: "boom", ObservedGeneration: 1},
			{Type: "Stalled", Status: "True", Reason: "HandlerFailed", Message: "boom", ObservedGeneration: 1},
		}
	}
	for name, tc := range map[string]struct {
		scope         *scope
		requireHealth func(testing.TB, runtime.Object) string
	}{
		"it runs":                    {newScope(), gitops.RequireCurrent},
		"it sleeps":                  {newScope(desired(0)), gitops.RequireCurrent},
		"it just wakes":              {newScope(was("True", "DeploymentReady"), available(false), pods(pod(time.Second))), gitops.RequireCurrent},
		"it does without KEDA":       {newScope(scales, func(s *scope) { s.keda = false }), gitops.RequireCurrent},
		"it does without a registry": {newScope(func(s *scope) { s.planned, s.build = true, conditionUpdate{status: "False", reason: "NoRegistry"} }), gitops.RequireCurrent},
		"it is rolled out":           {newScope(func(s *scope) { s.change = updated }), gitops.RequireInProgress},
		"its image is built":         {newScope(unbuilt(unknown)), gitops.RequireInProgress},
		"an earlier version serves during a build": {newScope(updatedAfter("True", "DeploymentReady"), unbuilt(unknown)), gitops.RequireInProgress},
		"its commit is unknown":                    {newScope(updatedAfter("True", "DeploymentReady"), unbuilt(conditionUpdate{})), gitops.RequireInProgress},
		"its repository is unavailable": {newScope(func(s *scope) {
			s.source = sourceProblem("away")
		}), gitops.RequireInProgress},
		"its build is tried again":           {newScope(unbuilt(failedBuild(false))), gitops.RequireInProgress},
		"its build fails for good":           {newScope(unbuilt(failedBuild(true))), gitops.RequireFailed},
		"the registry's Secret is wrong":     {newScope(unbuilt(invalidRegistryCondition("no"))), gitops.RequireFailed},
		"KEDA has not answered":              {newScope(scales, func(s *scope) { s.scaledObject = &resources.LiveScaledObject{} }), gitops.RequireInProgress},
		"its handler does not load":          {newScope(available(false), pods(pod(time.Minute, ended(1, "Error", "boom")))), gitops.RequireFailed},
		"its handler did not load, sleeping": {newScope(was("False", "HandlerFailed"), desired(0)), gitops.RequireFailed},
		"pods temporarily cannot be created": {newScope(available(false), func(s *scope) {
			setDeploymentCondition(s, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate"})
		}), gitops.RequireInProgress},
		"the rollout has exceeded its deadline":     {newScope(progressing("False", "ProgressDeadlineExceeded")), gitops.RequireFailed},
		"its spec is invalid":                       {newScope(failing(kube.Stalled(invalid))), gitops.RequireFailed},
		"Kubernetes rejects its Deployment":         {newScope(failing(kube.Stalled(refused))), gitops.RequireFailed},
		"a webhook rejects it":                      {newScope(failing(refused)), gitops.RequireInProgress},
		"the stalling condition is not evaluated":   {newScope(stalledBefore), gitops.RequireFailed},
		"the stalling condition is evaluated again": {newScope(stalledBefore, func(s *scope) { s.applied = true }), gitops.RequireCurrent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setStatus(tc.scope)
			tc.requireHealth(t, tc.scope.fn)
			first := tc.scope.fn.Status.DeepCopy()
			tc.scope.now = tc.scope.now.Add(time.Hour)
			summarize(tc.scope)
			require.Equal(t, *first, tc.scope.fn.Status, "an unchanged status must not change")
		})
	}
}

func TestAConditionChangeEmitsOneEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	_, err := b.reconcile()
	require.NoError(t, err)
	close(b.recorder.Events)
	seen := map[string]bool{}
	for event := range b.recorder.Events {
		require.False(t, seen[event], event)
		seen[event] = true
	}
	require.Len(t, seen, 2, "the configuration is valid, and there is a Deployment")
}
