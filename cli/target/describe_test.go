package target

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/instance"
)

func TestPhaseOfAFunctionInACluster(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: reason}
	}
	running := condition(v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		count      replicas
		want       string
		wantError  string
	}{
		"a new Function":            {nil, replicas{}, "preparing", ""},
		"a Function being built":    {[]metav1.Condition{condition(v1alpha2.ConditionBuildReady, metav1.ConditionUnknown, v1alpha2.ReasonJobRunning)}, replicas{}, "preparing", ""},
		"a sleeping Function":       {[]metav1.Condition{running}, replicas{}, "asleep", ""},
		"a waking Function":         {[]metav1.Condition{running}, replicas{1, 0}, "waking", ""},
		"a serving Function":        {[]metav1.Condition{running}, replicas{2, 1}, "ready", ""},
		"a Function without KEDA":   {[]metav1.Condition{running, condition(v1alpha2.ConditionScaling, metav1.ConditionFalse, v1alpha2.ReasonKedaNotInstalled)}, replicas{1, 1}, "ready", ""},
		"a Function being replaced": {[]metav1.Condition{condition(v1alpha2.ConditionRunning, metav1.ConditionUnknown, v1alpha2.ReasonDeploymentWaiting)}, replicas{1, 1}, "reloading", ""},
		"an invalid Function":       {[]metav1.Condition{condition(v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonInvalidSpec), running}, replicas{1, 1}, "failing", v1alpha2.ReasonInvalidSpec},
	} {
		fn := &v1alpha2.Function{Status: v1alpha2.FunctionStatus{ObservedGeneration: 1, Conditions: tc.conditions}}
		got := describe(fn, tc.count)
		require.Equal(t, tc.want, got.Phase, name)
		require.Equal(t, tc.wantError, got.LastError, name)
	}
}

func TestStateOfASubscriptionInACluster(t *testing.T) {
	t.Parallel()
	wrong := eventingv1alpha2.Condition{Type: eventingv1alpha2.ConditionSpecValid, Status: corev1.ConditionFalse, Message: "the sink is no URL"}
	letters := eventingv1alpha2.Condition{Type: eventingv1alpha2.ConditionDeadLetterSink, Status: corev1.ConditionFalse, Message: "no such Service"}
	for name, tc := range map[string]struct {
		ready, paused bool
		conditions    []eventingv1alpha2.Condition
		want, message string
	}{
		"a new Subscription":                                  {false, false, nil, "preparing", ""},
		"a served Subscription":                               {true, false, nil, "ready", ""},
		"a paused Subscription":                               {true, true, nil, "paused", ""},
		"an invalid Subscription, paused or not":              {false, true, []eventingv1alpha2.Condition{wrong}, "failing", "the sink is no URL"},
		"a Subscription with an invalid sink of dead letters": {true, false, []eventingv1alpha2.Condition{letters}, "ready", "no such Service"},
	} {
		got := describeSubscription(&eventingv1alpha2.Subscription{
			Spec:   eventingv1alpha2.SubscriptionSpec{Sink: "https://me:secret@api.example.com/in?token=secret", Paused: tc.paused},
			Status: eventingv1alpha2.SubscriptionStatus{Ready: tc.ready, Conditions: tc.conditions},
		})
		require.Equal(t, Subscription{Sink: "https://api.example.com/in", State: tc.want, Message: tc.message}, got, name)
	}
}

func TestFunctionIsChosenByNameAndNamespace(t *testing.T) {
	t.Parallel()
	all := []Function{{Namespace: "a", Name: "x"}, {Namespace: "b", Name: "x"}, {Namespace: "b", Name: "y"}}
	for name, tc := range map[string]struct {
		namespace, name, usual string
		want                   string
		code                   exit.Code
	}{
		"the only one of its name":     {"", "y", "a", "b", exit.OK},
		"that of the namespace":        {"b", "x", "a", "b", exit.OK},
		"that of the usual namespace":  {"", "x", "a", "a", exit.OK},
		"one of two, which is unclear": {"", "x", "z", "", exit.Usage},
		"none":                         {"", "z", "a", "", exit.NotFound},
		"one of another namespace":     {"a", "y", "a", "", exit.NotFound},
	} {
		got, err := choose(all, tc.namespace, tc.name, tc.usual)
		require.Equal(t, tc.code, exit.CodeOf(err), name)
		require.Equal(t, tc.want, got.Namespace, name)
	}
	_, err := choose(nil, "", "x", "")
	require.EqualError(t, err, "there is no Function x, nor any other")
}

func TestStateOfAStartingPodHasItsReason(t *testing.T) {
	t.Parallel()
	waiting := func(reason string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}}}}
	}
	going := waiting("Pulling")
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	ready := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	for name, tc := range map[string]struct {
		pods  []corev1.Pod
		ready bool
		text  string
		code  exit.Code
	}{
		"no pod":                           {nil, false, "", exit.OK},
		"a terminating pod":                {[]corev1.Pod{going}, false, "", exit.OK},
		"a pod being created":              {[]corev1.Pod{waiting("ContainerCreating")}, false, "pod  is ContainerCreating", exit.OK},
		"a crashing pod":                   {[]corev1.Pod{waiting("CrashLoopBackOff")}, false, "pod  is CrashLoopBackOff", exit.Failed},
		"a ready pod next to a broken one": {[]corev1.Pod{waiting("ImagePullBackOff"), ready}, true, "", exit.OK},
	} {
		pod, text, err := pick(tc.pods)
		require.Equal(t, tc.ready, pod != nil, name)
		require.Equal(t, tc.code, exit.CodeOf(err), name)
		require.Equal(t, tc.text, text, name)
	}
}

func TestLocalModeReturnsURLsOfAPIRulesForAFunction(t *testing.T) {
	t.Parallel()
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"functions": [
			{"namespace": "orders", "name": "shop", "url": "http://127.0.0.1:8081", "exposed": ["http://orders.localhost:8070/orders"]},
			{"namespace": "orders", "name": "pricing", "url": "http://127.0.0.1:8082"},
			{"namespace": "other", "name": "shop", "exposed": ["http://other.localhost:8070/"]}]}`)
	}))
	l := newLocal(instance.Instance{Control: control.URL})
	shop := types.NamespacedName{Namespace: "orders", Name: "shop"}
	exposed := l.Exposed(t.Context(), "orders")
	require.Equal(t, []string{"http://orders.localhost:8070/orders"}, exposed[shop])
	require.Empty(t, exposed[types.NamespacedName{Namespace: "orders", Name: "pricing"}])
	require.NotContains(t, exposed, types.NamespacedName{Namespace: "other", Name: "shop"})
	require.Len(t, l.Exposed(t.Context(), "")[types.NamespacedName{Namespace: "other", Name: "shop"}], 1)

	require.NoError(t, l.Close())
	control.Close()
	require.Empty(t, l.Exposed(t.Context(), ""), "what is gone exposes nothing, and that is no error")
}
