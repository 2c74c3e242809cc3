package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		"an object of ours is ours":              {object: owned("Function", "price", "1", true)},
		"an object of another controller is not": {object: owned("App", "shop", "2", true), want: "belongs to App shop;"},
		"an object of a predecessor goes soon":   {object: owned("Function", "price", "2", true), want: "of the deleted predecessor"},
		"a kind of the same name is another":     {object: namesake, want: "belongs to Function price;"},
		"an owner that is no controller is one":  {object: owned("App", "shop", "2", false), want: "belongs to App shop;"},
		"a Helm release is an owner": {
			object: metav1.ObjectMeta{Name: "price", Annotations: map[string]string{"meta.helm.sh/release-name": "shop"}},
			want:   "belongs to Helm release shop;",
		},
		"a label may name the owner": {
			object: metav1.ObjectMeta{Name: "price", Labels: map[string]string{"app.kubernetes.io/managed-by": "argocd"}},
			want:   "belongs to argocd (its label",
		},
		"the writer is better than nothing": {
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
		"a stalled object is left alone":    {err: fmt.Errorf("wrapped: %w", Stalled(cause)), wantErr: true, wantTerminal: true},
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
