package serverless

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/internal/kube"
)

// summarize derives Ready and Stalled. What another object may put right does not stall: one that is redundant takes the place of the
// other once that is gone.
func summarize(s *scope, now time.Time) {
	status := &s.serverless.Status
	timedOut := s.failed == nil && s.deployment != nil && verify(s.deployment).stalled != nil
	aspects := []kube.Aspect{
		{Type: operatorv1alpha1.ConditionConfigured, Stalled: s.invalid != nil || !s.allowed},
		{Type: operatorv1alpha1.ConditionDeploymentFailure, Optional: true},
		{Type: operatorv1alpha1.ConditionInstalled, Stalled: timedOut},
	}
	if s.isDeleted() {
		aspects = []kube.Aspect{{Type: operatorv1alpha1.ConditionDeleted}}
	}
	kube.Summarize(desirable(status.Conditions), s.serverless.Generation, aspects...).Set(&status.Conditions, now)
}

// desirable are the conditions with those turned round of which True is no good news.
func desirable(conditions []metav1.Condition) []metav1.Condition {
	turned := slices.Clone(conditions)
	for _, kind := range []string{operatorv1alpha1.ConditionDeploymentFailure, operatorv1alpha1.ConditionDeleted} {
		if found := meta.FindStatusCondition(turned, kind); found != nil && found.Status == metav1.ConditionTrue {
			found.Status = metav1.ConditionFalse
		}
	}
	return turned
}
