package kube

import (
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxConditionMessage is the longest message that the API server accepts.
const MaxConditionMessage = 32768

// SetCondition puts condition among conditions. The transition time becomes
// now if the status changes, and stays otherwise.
func SetCondition(conditions *[]metav1.Condition, condition metav1.Condition, now time.Time) {
	condition.Message = Truncate(condition.Message, MaxConditionMessage)
	condition.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(conditions, condition)
}

// Truncate cuts s to at most limit bytes and never inside a character.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Transitions returns the conditions of after that are new, or whose status or
// reason differs from that in before.
func Transitions(before, after []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, condition := range after {
		old := meta.FindStatusCondition(before, condition.Type)
		if old == nil || old.Status != condition.Status || old.Reason != condition.Reason {
			changed = append(changed, condition)
		}
	}
	return changed
}
