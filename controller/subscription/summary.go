package subscription

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// summary is what the other conditions amount to, in the words of kstatus. Dead letters do not matter for it.
func summary(found outcome) []eventingv1alpha2.Condition {
	ready := condition(eventingv1alpha2.ConditionReady, true, eventingv1alpha2.ReasonServing, "Events are delivered")
	switch {
	case found.invalid != "":
		ready = condition(ready.Type, false, eventingv1alpha2.ReasonSinkMissing,
			kube.Brief(string(eventingv1alpha2.ConditionSpecValid), found.invalid))
		if found.stalled {
			ready.Reason = eventingv1alpha2.ReasonInvalid
		}
	case found.inactive != "":
		ready = condition(ready.Type, false, eventingv1alpha2.ReasonInactive,
			kube.Brief(string(eventingv1alpha2.ConditionActive), found.inactive))
	case found.route.Paused:
		ready = condition(ready.Type, true, eventingv1alpha2.ReasonPaused, pausedMessage)
	}
	if ready.Status == corev1.ConditionTrue || !found.stalled {
		return []eventingv1alpha2.Condition{ready}
	}
	return []eventingv1alpha2.Condition{ready, condition(eventingv1alpha2.ConditionStalled, true, ready.Reason, ready.Message)}
}

// beforeSummary is where a further condition goes.
func beforeSummary(conditions []eventingv1alpha2.Condition) int {
	at := slices.IndexFunc(conditions, func(c eventingv1alpha2.Condition) bool { return kube.IsSummary(string(c.Type)) })
	if at < 0 {
		return len(conditions)
	}
	return at
}
