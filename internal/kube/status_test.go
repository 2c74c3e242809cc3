package kube

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestCheckOwner(t *testing.T) {
	t.Parallel()
	owner := &metav1.ObjectMeta{Name: "price", UID: "1"}
	ownerKind := schema.GroupKind{Group: "ours.example.com", Kind: "Function"}
	owned := func(kind, name string, uid types.UID, controls bool) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "price", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "ours.example.com/v1", Kind: kind, Name: name, UID: uid, Controller: &controls},
		}}
	}
	namesake := owned("Function", "price", "2", true)
	namesake.OwnerReferences[0].APIVersion = "theirs.example.com/v1"
	tests := map[string]struct {
		object metav1.ObjectMeta
		want   string
	}{
		"an object of ours is ours":                     {object: owned("Function", "price", "1", true)},
		"an object of another controller is not":        {object: owned("App", "shop", "2", true), want: "belongs to App shop;"},
		"an object of a predecessor goes soon":          {object: owned("Function", "price", "2", true), want: "of the deleted predecessor"},
		"a kind of the same name is another":            {object: namesake, want: "belongs to Function price;"},
		"an owner that is not a controller is an owner": {object: owned("App", "shop", "2", false), want: "belongs to App shop;"},
		"a Helm release is an owner": {
			object: metav1.ObjectMeta{Name: "price", Annotations: map[string]string{"meta.helm.sh/release-name": "shop"}},
			want:   "belongs to Helm release shop;",
		},
		"a label may name the owner": {
			object: metav1.ObjectMeta{Name: "price", Labels: map[string]string{"app.kubernetes.io/managed-by": "argocd"}},
			want:   "belongs to argocd (its label",
		},
		"the writer is the last resort": {
			object: metav1.ObjectMeta{Name: "price", ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubelet", Subresource: "status"}, {Manager: "kubectl-create"},
			}},
			want: "belongs to no controller (it was written by kubectl-create)",
		},
		"an object may have no owner at all": {object: metav1.ObjectMeta{Name: "price"}, want: "belongs to no controller (it has no owner)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckOwner(&tc.object, "Service", owner, ownerKind)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "Service price")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", cause)
	tests := map[string]struct {
		err          error
		wantAfter    time.Duration
		wantErr      bool
		wantTerminal bool
	}{
		"no error is done":                  {},
		"a stalled object is not retried":   {err: fmt.Errorf("wrapped: %w", Stalled(cause)), wantErr: true, wantTerminal: true},
		"a waiting object comes back":       {err: fmt.Errorf("wrapped: %w", Waiting(cause, time.Minute)), wantAfter: time.Minute},
		"a conflict comes back soon":        {err: fmt.Errorf("wrapped: %w", conflict), wantAfter: conflictDelay},
		"anything else is tried again":      {err: cause, wantErr: true},
		"waiting for a conflict is waiting": {err: Waiting(conflict, time.Second), wantAfter: time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := Result(tc.err)
			require.GreaterOrEqual(t, result.RequeueAfter, tc.wantAfter)
			require.LessOrEqual(t, result.RequeueAfter, tc.wantAfter+tc.wantAfter/5+1)
			require.Equal(t, tc.wantErr, err != nil)
			require.Equal(t, tc.wantTerminal, errors.Is(err, reconcile.TerminalError(nil)))
			if tc.err != nil && tc.wantErr {
				require.ErrorIs(t, err, cause)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var conditions []metav1.Condition
	SetCondition(&conditions, metav1.Condition{Type: "Running", Status: "True", Reason: "A"}, start)
	SetCondition(&conditions, metav1.Condition{Type: "Running", Status: "True", Reason: "B", Message: strings.Repeat("ü", 20000)}, start.Add(time.Hour))
	require.True(t, conditions[0].LastTransitionTime.Equal(new(metav1.NewTime(start))), "the status has not changed")
	require.Equal(t, "B", conditions[0].Reason)
	require.Len(t, conditions[0].Message, MaxConditionMessage)
	SetCondition(&conditions, metav1.Condition{Type: "Running", Status: "False", Reason: "B"}, start.Add(2*time.Hour))
	require.True(t, conditions[0].LastTransitionTime.Equal(new(metav1.NewTime(start.Add(2*time.Hour)))))

	require.Equal(t, "ü", Truncate("üü", 3), "no character is cut in two")
	require.Equal(t, "abc", Truncate("abc", 3))
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	before := []metav1.Condition{{Type: "A", Status: "True", Reason: "r", Message: "old"}, {Type: "B", Status: "True", Reason: "r"}}
	after := []metav1.Condition{
		{Type: "A", Status: "True", Reason: "r", Message: "new"},
		{Type: "B", Status: "False", Reason: "r"},
		{Type: "C", Status: "True", Reason: "r"},
	}
	require.Equal(t, after[1:], Transitions(before, after))
}

func TestChangedOrDiffers(t *testing.T) {
	t.Parallel()
	filter := ChangedOrDiffers(func(before, after client.Object) bool {
		return before.(*corev1.Pod).Status.Message != after.(*corev1.Pod).Status.Message
	})
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":       {change: func(pod *corev1.Pod) { pod.ResourceVersion = "2" }},
		"other status":  {change: func(pod *corev1.Pod) { pod.Status.Reason = "x" }},
		"the status":    {change: func(pod *corev1.Pod) { pod.Status.Message = "x" }, want: true},
		"the spec":      {change: func(pod *corev1.Pod) { pod.Generation++ }, want: true},
		"a label":       {change: func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} }, want: true},
		"an annotation": {change: func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} }, want: true},
		"the owner":     {change: func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{{}} }, want: true},
		"a deletion":    {change: func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := &corev1.Pod{}
			tc.change(after)
			require.Equal(t, tc.want, filter.Update(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: after}))
			require.True(t, filter.Delete(event.DeleteEvent{Object: after}))
		})
	}
}

// says returns a condition of the second generation whose reason and message identify it.
func says(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: kind + "Is" + string(status), Message: kind + " is " + string(status), ObservedGeneration: 2}
}

func about(generation int64, condition metav1.Condition) metav1.Condition {
	condition.ObservedGeneration = generation
	return condition
}

func TestReadyAndStalledFollowFromTheOtherConditions(t *testing.T) {
	t.Parallel()
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	type conditions = []metav1.Condition
	for name, tc := range map[string]struct {
		conditions  conditions
		stalling    string // the stalling aspect
		wantStatus  metav1.ConditionStatus
		wantReason  string
		wantMessage string
		wantStalled bool
	}{
		"no condition is known": {
			wantStatus: unknown, wantReason: "Progressing", wantMessage: "Configured is not known yet",
		},
		"all conditions are True": {
			conditions: conditions{says("Configured", yes), says("Running", yes)},
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"the optional condition is True too": {
			conditions: conditions{says("Configured", yes), says("Running", yes), says("Scaling", yes)},
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"a condition is missing": {
			conditions: conditions{says("Configured", yes)},
			wantStatus: unknown, wantReason: "Progressing", wantMessage: "Running is not known yet",
		},
		"a condition is Unknown": {
			conditions: conditions{says("Configured", yes), says("Running", unknown), says("Scaling", unknown)},
			wantStatus: unknown, wantReason: "RunningIsUnknown", wantMessage: "Running is Unknown",
		},
		"False takes precedence over Unknown": {
			conditions: conditions{says("Configured", yes), says("Running", unknown), says("Scaling", no)},
			wantStatus: no, wantReason: "ScalingIsFalse", wantMessage: "Scaling is False",
		},
		"a stalling condition takes precedence over False": {
			conditions: conditions{says("Configured", no), says("Running", no)}, stalling: "Running",
			wantStatus: no, wantReason: "RunningIsFalse", wantMessage: "Running is False", wantStalled: true,
		},
		"a stalling condition that is True does not stall": {
			conditions: conditions{says("Configured", yes), says("Running", yes)}, stalling: "Running",
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"a False that is tolerated": {
			conditions: conditions{says("Configured", yes), says("Running", yes), {Type: "Scaling", Status: no, Reason: "ByHand"}}, stalling: "Scaling",
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"a condition of the previous generation": {
			conditions: conditions{says("Configured", yes), about(1, says("Running", yes))},
			wantStatus: unknown, wantReason: "Progressing", wantMessage: "Running is about generation 1, and not yet about 2",
		},
		"a False condition of the previous generation does not stall": {
			conditions: conditions{says("Configured", yes), about(1, says("Running", no))}, stalling: "Running",
			wantStatus: no, wantReason: "RunningIsFalse", wantMessage: "Running is False",
		},
		"conditions without a generation": {
			conditions: conditions{about(0, says("Configured", yes)), about(0, says("Running", no))}, stalling: "Running",
			wantStatus: no, wantReason: "RunningIsFalse", wantMessage: "Running is False", wantStalled: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(100, 0)
			kept := len(tc.conditions)
			aspects := []Aspect{
				{Type: "Configured"}, {Type: "Running"}, {Type: "Scaling", Optional: true, Tolerated: []string{"ByHand"}},
			}
			for i := range aspects {
				aspects[i].Stalled = aspects[i].Type == tc.stalling
			}
			before := append(conditions{}, tc.conditions...)
			all := append(conditions{}, tc.conditions...)
			SetSummary(&all, 2, now, aspects...)

			require.Equal(t, before, all[:kept:kept], "the others stay, and come first")
			want := metav1.Condition{
				Type: "Ready", Status: tc.wantStatus, Reason: tc.wantReason, Message: tc.wantMessage,
				ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(now),
			}
			summary := conditions{want}
			if tc.wantStalled {
				want.Type, want.Status = "Stalled", metav1.ConditionTrue
				summary = append(summary, want)
			}
			require.Equal(t, summary, all[kept:])

			again := append(conditions{}, all...)
			SetSummary(&again, 2, now.Add(time.Hour), aspects...)
			require.Equal(t, all, again, "an unchanged condition must keep its time")
		})
	}
}

func TestALongMessageKeepsItsBeginningAndItsEnd(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", Brief("BuildReady", "short"))
	for _, filling := range []string{"a", "ä", "木"} {
		brief := Brief("BuildReady", "Job failed: "+strings.Repeat(filling, 10_000)+". Correct it")
		require.LessOrEqual(t, len(brief), MaxSummaryMessage)
		require.Greater(t, len(brief), MaxSummaryMessage-10)
		require.True(t, utf8.ValidString(brief))
		require.True(t, strings.HasPrefix(brief, "Job failed: "))
		require.Contains(t, brief, "(all of it: BuildReady)")
		require.True(t, strings.HasSuffix(brief, ". Correct it"))
	}
}

func TestStalledIsRemovedWhenNoActionIsNeeded(t *testing.T) {
	t.Parallel()
	all := []metav1.Condition{says("Configured", metav1.ConditionFalse)}
	SetSummary(&all, 2, time.Unix(100, 0), Aspect{Type: "Configured", Stalled: true})
	require.Len(t, all, 3)

	all[0] = says("Configured", metav1.ConditionTrue)
	SetCondition(&all, says("Running", metav1.ConditionTrue), time.Unix(150, 0)) // placed behind the summary
	SetSummary(&all, 3, time.Unix(200, 0), Aspect{Type: "Running"})
	require.Len(t, all, 3)
	require.Equal(t, "Running", all[1].Type, "conditions that come later stand before the summary")
	require.Equal(t, metav1.ConditionUnknown, all[2].Status, "it is about generation 2")
	require.Equal(t, time.Unix(200, 0), all[2].LastTransitionTime.Time)
}

func request(namespace string, number int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: strconv.Itoa(number)}}
}

// startQueue returns a queue like a controller's.
func startQueue(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	options := inTurn(controller.Options{})
	queue := options.NewQueue("", options.RateLimiter)
	t.Cleanup(queue.ShutDown)
	return queue
}

func TestWorkersTakeObjectsOfNamespacesInTurn(t *testing.T) {
	t.Parallel()
	queue := startQueue(t)
	for i := range 1000 {
		queue.Add(request("hostile", i))
	}
	for i := range 2 {
		queue.Add(request("shop", i))
		queue.Add(request("shop", i)) // keeps its place
	}
	require.Equal(t, 1002, queue.Len())
	var taken []reconcile.Request
	for range 5 {
		next, _ := queue.Get()
		taken = append(taken, next)
		queue.Done(next)
	}
	require.Equal(t, []reconcile.Request{
		request("hostile", 0), request("shop", 0), request("hostile", 1), request("shop", 1), request("hostile", 2),
	}, taken)
}

func TestObjectRequeuedDuringItsReconciliationIsReconciledAgain(t *testing.T) {
	t.Parallel()
	queue := startQueue(t)
	queue.Add(request("shop", 1))
	first, _ := queue.Get()
	queue.Add(request("shop", 1))
	require.Zero(t, queue.Len(), "one worker at a time has it")
	queue.Done(first)
	second, _ := queue.Get()
	require.Equal(t, first, second)
	queue.Done(second)
}

func TestFailuresOfOneNamespaceDoNotDelayRetriesOfAnother(t *testing.T) {
	t.Parallel()
	limiter := inTurn(controller.Options{}).RateLimiter
	for i := range 2000 {
		limiter.When(request("hostile", i))
	}
	require.Equal(t, firstRetry, limiter.When(request("shop", 1)))
	for range 30 {
		limiter.When(request("shop", 1))
	}
	require.Equal(t, lastRetry, limiter.When(request("shop", 1)))
	own := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Minute, time.Hour)
	require.Equal(t, time.Minute, inTurn(controller.Options{RateLimiter: own}).RateLimiter.When(request("shop", 2)))
}
