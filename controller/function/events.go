package function

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// maxEventNote is the longest text that an event may have.
const maxEventNote = 1024

// announce sends an event for each condition that changed.
func (r *Reconciler) announce(fn *v1alpha2.Function, before []metav1.Condition) {
	for _, condition := range kube.Transitions(before, fn.Status.Conditions) {
		if kube.IsSummary(condition.Type) {
			continue // it repeats another one
		}
		kind := corev1.EventTypeNormal
		if condition.Status == metav1.ConditionFalse || strings.HasPrefix(condition.Message, "Warning") {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(fn, nil, kind, condition.Reason, "Reconcile", "%s", kube.Truncate(condition.Message, maxEventNote))
	}
}
