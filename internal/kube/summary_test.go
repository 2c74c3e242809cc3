package kube_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/internal/kube"
)

// says is a condition about the second generation whose reason and message tell which one it is.
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
		stalling    string // which aspect
		wantStatus  metav1.ConditionStatus
		wantReason  string
		wantMessage string
		wantStalled bool
	}{
		"nothing is known": {
			wantStatus: unknown, wantReason: "Progressing", wantMessage: "Configured is not known yet",
		},
		"all is well": {
			conditions: conditions{says("Configured", yes), says("Running", yes)},
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"what is optional is well too": {
			conditions: conditions{says("Configured", yes), says("Running", yes), says("Scaling", yes)},
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"one is missing": {
			conditions: conditions{says("Configured", yes)},
			wantStatus: unknown, wantReason: "Progressing", wantMessage: "Running is not known yet",
		},
		"one is not known": {
			conditions: conditions{says("Configured", yes), says("Running", unknown), says("Scaling", unknown)},
			wantStatus: unknown, wantReason: "RunningIsUnknown", wantMessage: "Running is Unknown",
		},
		"what is False counts before what is not known": {
			conditions: conditions{says("Configured", yes), says("Running", unknown), says("Scaling", no)},
			wantStatus: no, wantReason: "ScalingIsFalse", wantMessage: "Scaling is False",
		},
		"what stalls counts before what is False": {
			conditions: conditions{says("Configured", no), says("Running", no)}, stalling: "Running",
			wantStatus: no, wantReason: "RunningIsFalse", wantMessage: "Running is False", wantStalled: true,
		},
		"what stalls and is True stalls nothing": {
			conditions: conditions{says("Configured", yes), says("Running", yes)}, stalling: "Running",
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"a False that is tolerated": {
			conditions: conditions{says("Configured", yes), says("Running", yes), {Type: "Scaling", Status: no, Reason: "ByHand"}}, stalling: "Scaling",
			wantStatus: yes, wantReason: "RunningIsTrue", wantMessage: "Running is True",
		},
		"one is about the generation before": {
			conditions: conditions{says("Configured", yes), about(1, says("Running", yes))},
			wantStatus: unknown, wantReason: "Progressing", wantMessage: "Running is about generation 1, and not yet about 2",
		},
		"one that was False of the generation before stalls nothing": {
			conditions: conditions{says("Configured", yes), about(1, says("Running", no))}, stalling: "Running",
			wantStatus: no, wantReason: "RunningIsFalse", wantMessage: "Running is False",
		},
		"conditions that name no generation": {
			conditions: conditions{about(0, says("Configured", yes)), about(0, says("Running", no))}, stalling: "Running",
			wantStatus: no, wantReason: "RunningIsFalse", wantMessage: "Running is False", wantStalled: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(100, 0)
			kept := len(tc.conditions)
			aspects := []kube.Aspect{
				{Type: "Configured"}, {Type: "Running"}, {Type: "Scaling", Optional: true, Tolerated: []string{"ByHand"}},
			}
			for i := range aspects {
				aspects[i].Stalled = aspects[i].Type == tc.stalling
			}
			before := append(conditions{}, tc.conditions...)
			all := append(conditions{}, tc.conditions...)
			kube.SetSummary(&all, 2, now, aspects...)

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
			kube.SetSummary(&again, 2, now.Add(time.Hour), aspects...)
			require.Equal(t, all, again, "what stays as it is has no new time")
		})
	}
}

func TestALongMessageKeepsItsBeginningAndItsEnd(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", kube.Brief("BuildReady", "short"))
	for _, filling := range []string{"a", "ä", "木"} {
		brief := kube.Brief("BuildReady", "Job failed: "+strings.Repeat(filling, 10_000)+". Correct it")
		require.LessOrEqual(t, len(brief), kube.MaxSummaryMessage)
		require.Greater(t, len(brief), kube.MaxSummaryMessage-10)
		require.True(t, utf8.ValidString(brief))
		require.True(t, strings.HasPrefix(brief, "Job failed: "))
		require.Contains(t, brief, "(all of it: BuildReady)")
		require.True(t, strings.HasSuffix(brief, ". Correct it"))
	}
}

func TestStalledGoesWhenNobodyHasToActAnyMore(t *testing.T) {
	t.Parallel()
	all := []metav1.Condition{says("Configured", metav1.ConditionFalse)}
	kube.SetSummary(&all, 2, time.Unix(100, 0), kube.Aspect{Type: "Configured", Stalled: true})
	require.Len(t, all, 3)

	all[0] = says("Configured", metav1.ConditionTrue)
	kube.SetCondition(&all, says("Running", metav1.ConditionTrue), time.Unix(150, 0)) // which comes behind them
	kube.SetSummary(&all, 3, time.Unix(200, 0), kube.Aspect{Type: "Running"})
	require.Len(t, all, 3)
	require.Equal(t, "Running", all[1].Type, "conditions that come later stand before the summary")
	require.Equal(t, metav1.ConditionUnknown, all[2].Status, "it is about generation 2")
	require.Equal(t, time.Unix(200, 0), all[2].LastTransitionTime.Time)
}
