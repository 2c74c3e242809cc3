package conditions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/gateway/activator"
)

func function(conditions ...metav1.Condition) *v1alpha2.Function {
	fn := &v1alpha2.Function{}
	fn.Name, fn.Namespace = "price", "shop"
	fn.Status.Conditions = conditions
	return fn
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "Error: at /secret/path.js:3"}
}

func TestConditionOfAFunctionFollowsItsStatus(t *testing.T) {
	t.Parallel()
	runs := condition(v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)
	buildFailed := condition(v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonJobFailed)
	for name, tc := range map[string]struct {
		fn   *v1alpha2.Function
		want activator.Condition
	}{
		"nothing yet":        {function(), activator.Condition{}},
		"it runs, or sleeps": {function(runs), activator.Condition{}},
		"its handler does not load": {
			function(condition(v1alpha2.ConditionRunning, metav1.ConditionFalse, v1alpha2.ReasonHandlerFailed)),
			activator.Condition{Broken: "HandlerFailed; its status says why"},
		},
		"its first build failed": {
			function(condition(v1alpha2.ConditionRunning, metav1.ConditionUnknown, v1alpha2.ReasonDeploymentWaiting), buildFailed),
			activator.Condition{Broken: "JobFailed; its status says why"},
		},
		"a build failed, and the version before serves": {function(runs, buildFailed), activator.Condition{}},
		"its spec is wrong": {
			function(condition(v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonInvalidSpec)),
			activator.Condition{Broken: "InvalidFunctionSpec; its status says why"},
		},
		"it takes its time": {
			function(condition(v1alpha2.ConditionRunning, metav1.ConditionUnknown, v1alpha2.ReasonMinReplicasNotAvailable)),
			activator.Condition{Reason: "MinReplicasNotAvailable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, conditionOf(tc.fn), "and how long a request may wait is the gateway's to say")
		})
	}
}

func TestAFunctionSaysHowLongItsRequestsMayWait(t *testing.T) {
	t.Parallel()
	fn := function()
	fn.Annotations = map[string]string{v1alpha2.AnnotationHTTPWait: "5"}
	require.Equal(t, 5*time.Second, conditionOf(fn).Wait)
	fn.Annotations[v1alpha2.AnnotationHTTPWait] = "soon"
	require.Zero(t, conditionOf(fn).Wait, "what is wrong does not count")
}

func TestTheServiceOfAWorkloadSaysHowItsRequestsAreServed(t *testing.T) {
	t.Parallel()
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
	require.Equal(t, activator.Condition{}, conditionOfWorkload(service))

	service.Annotations = map[string]string{v1alpha2.AnnotationHTTPWait: "5"}
	service.Spec.Ports[0].TargetPort = intstr.FromString("rouse-8080")
	require.Equal(t, activator.Condition{Wait: 5 * time.Second, Stay: true}, conditionOfWorkload(service))
}

func TestTheCacheKeepsNoSourcesAndNoMessages(t *testing.T) {
	t.Parallel()
	fn := function(condition(v1alpha2.ConditionRunning, metav1.ConditionFalse, v1alpha2.ReasonHandlerFailed))
	fn.Annotations = map[string]string{v1alpha2.AnnotationHTTPWait: "5", "other": "large"}
	fn.Spec.Source.Inline = &v1alpha2.InlineSource{Source: "module.exports = 1"}
	kept, err := Transform(fn)
	require.NoError(t, err)
	left, ok := kept.(*v1alpha2.Function)
	require.True(t, ok)
	require.Empty(t, left.Spec)
	require.Equal(t, map[string]string{v1alpha2.AnnotationHTTPWait: "5"}, left.Annotations)
	require.Equal(t, "price", left.Name)
	require.Empty(t, left.Status.Conditions[0].Message)
	require.Equal(t, conditionOf(fn), conditionOf(left))
}
