package function

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// summarize derives Ready and Stalled. A Function without a registry or without KEDA serves, in its way.
func summarize(s *scope) {
	kube.SetSummary(&s.fn.Status.Conditions, s.fn.Generation, s.now,
		kube.Aspect{Type: v1alpha2.ConditionConfigurationReady, Stalled: s.stalled[v1alpha2.ConditionConfigurationReady]},
		kube.Aspect{
			Type: v1alpha2.ConditionBuildReady, Optional: true, Tolerated: []string{v1alpha2.ReasonNoRegistry},
			Stalled: s.stalled[v1alpha2.ConditionBuildReady],
		},
		kube.Aspect{Type: v1alpha2.ConditionRunning, Stalled: s.stalled[v1alpha2.ConditionRunning]},
		kube.Aspect{
			Type: v1alpha2.ConditionScaling, Optional: true, Tolerated: []string{v1alpha2.ReasonKedaNotInstalled},
			Stalled: s.stalled[v1alpha2.ConditionScaling],
		},
	)
}

// stalledBefore are the conditions that stalled the Function and stay as they are until a reconciliation comes as far again.
func stalledBefore(conditions []metav1.Condition) map[string]bool {
	stalled := map[string]bool{}
	last := meta.FindStatusCondition(conditions, kube.ConditionStalled)
	if last == nil {
		return stalled
	}
	for _, condition := range conditions {
		stalled[condition.Type] = condition.Reason == last.Reason && kube.Brief(condition.Type, condition.Message) == last.Message
	}
	return stalled
}

// failedCondition says what a failure that ended the phases means.
func failedCondition(s *scope, failed *failure) conditionUpdate {
	v := failureCondition(failed)
	v.stalls = kube.IsStalled(s.err)
	return v
}
