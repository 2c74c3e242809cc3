package subscription

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

// pausedMessage explains why an active Subscription delivers nothing.
const pausedMessage = "Paused: events are kept and not delivered until spec.paused is false"

// outcome is the result of a reconciliation of a Subscription.
type outcome struct {
	// invalid is what the user has to correct, empty if nothing.
	invalid string
	// stalled is true when only a change of the Subscription, or of the operator's access rules, resolves the problem.
	stalled bool
	// inactive is why the Subscription has no working consumer, empty if it has one.
	inactive string
	// deadLettersBlocked is why dead letters cannot be delivered to their sink, empty if they can or have none.
	deadLettersBlocked string
	// route is the resolved Subscription, empty if it is invalid.
	route routing.Route
}

// setStatus computes the status from an outcome.
func setStatus(sub *eventingv1alpha2.Subscription, found outcome, now time.Time) {
	status := &sub.Status
	before := status.Conditions
	if found.invalid != "" {
		*status = eventingv1alpha2.SubscriptionStatus{
			ObservedGeneration: sub.Generation,

			Types:       []eventingv1alpha2.EventType{},
			DeadLetters: status.DeadLetters, // the sweeper's
			Conditions: withTimes(before, now, slices.Concat([]eventingv1alpha2.Condition{
				condition(eventingv1alpha2.ConditionSpecValid, false, eventingv1alpha2.ReasonSpecInvalid, found.invalid),
			}, sweeperConditions(before), summary(found))...),
		}
		return
	}
	active := condition(eventingv1alpha2.ConditionActive, true, eventingv1alpha2.ReasonActive, "")
	if found.route.Paused {
		active.Message = pausedMessage
	}
	if found.inactive != "" {
		active = condition(eventingv1alpha2.ConditionActive, false, eventingv1alpha2.ReasonNotActive, found.inactive)
	}
	*status = eventingv1alpha2.SubscriptionStatus{
		ObservedGeneration: sub.Generation,

		Ready: found.inactive == "",
		Types: []eventingv1alpha2.EventType{},

		DeadLetters: status.DeadLetters,
		Conditions: withTimes(before, now, slices.Concat([]eventingv1alpha2.Condition{
			condition(eventingv1alpha2.ConditionSpecValid, true, eventingv1alpha2.ReasonSpecValid, remarks(sub, found.route)),
			active,
		}, deadLetterConditions(found), sweeperConditions(before), summary(found))...),
	}
	for _, mapping := range found.route.Types {
		status.Types = append(status.Types, eventingv1alpha2.EventType{
			OriginalType: mapping.Original, CleanType: mapping.Clean,
		})
		status.Backend.Types = append(status.Backend.Types, eventingv1alpha2.JetStreamType{
			OriginalType: mapping.Original, ConsumerName: mapping.ConsumerName,
		})
	}
}

// deadLetterConditions returns the condition of the dead-letter sink, none without one. Events do not depend on it.
func deadLetterConditions(found outcome) []eventingv1alpha2.Condition {
	switch {
	case found.route.DeadLetters == nil:
		return nil
	case found.deadLettersBlocked != "":
		return []eventingv1alpha2.Condition{condition(eventingv1alpha2.ConditionDeadLetterSink, false,
			eventingv1alpha2.ReasonNoDeadLetterSink, found.deadLettersBlocked)}
	default:
		return []eventingv1alpha2.Condition{condition(eventingv1alpha2.ConditionDeadLetterSink, true,
			eventingv1alpha2.ReasonDeadLetterSink, "")}
	}
}

// sweeperConditions returns the conditions that a reconciliation leaves unchanged.
func sweeperConditions(before []eventingv1alpha2.Condition) []eventingv1alpha2.Condition {
	if slices.ContainsFunc(before, isDeadLettersDropped) {
		return []eventingv1alpha2.Condition{deadLettersDroppedCondition()}
	}
	return nil
}

// remarks reports fields of a valid spec that are not applied as written.
func remarks(sub *eventingv1alpha2.Subscription, route routing.Route) string {
	var all []string
	if text := cleaned(route.Types); text != "" {
		all = append(all, text)
	}
	if routing.AsksForTooMany(&sub.Spec) {
		all = append(all, fmt.Sprintf("%s counts as %d, which is the most", eventingv1alpha2.ConfigMaxInFlight, route.MaxInFlight))
	}
	return strings.Join(all, ". ")
}

// cleaned reports event types that are not subscribed as written.
func cleaned(types []routing.TypeMapping) string {
	var changed []string
	for _, mapping := range types {
		if mapping.Clean != mapping.Original {
			changed = append(changed, fmt.Sprintf("%q as %q", mapping.Original, mapping.Clean))
		}
	}
	if len(changed) == 0 {
		return ""
	}
	return "Event types without the characters that subjects cannot have: " + strings.Join(changed, ", ")
}

func condition(
	kind eventingv1alpha2.ConditionType, holds bool, reason eventingv1alpha2.ConditionReason, message string,
) eventingv1alpha2.Condition {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	return eventingv1alpha2.Condition{
		Type: kind, Status: status, Reason: reason, Message: kube.Truncate(message, kube.MaxConditionMessage),
	}
}

// withTimes keeps the transition time of an unchanged condition.
func withTimes(before []eventingv1alpha2.Condition, now time.Time, conditions ...eventingv1alpha2.Condition) []eventingv1alpha2.Condition {
	timed := make([]eventingv1alpha2.Condition, 0, len(conditions))
	for _, condition := range conditions {
		condition.LastTransitionTime = metav1.NewTime(now)
		for _, old := range before {
			since := old.LastTransitionTime
			old.LastTransitionTime = condition.LastTransitionTime
			if old == condition {
				condition.LastTransitionTime = since
			}
		}
		timed = append(timed, condition)
	}
	return timed
}

// patchStatus writes the status if it differs. Two fields are always part of the patch, because the schema requires
// them from the first write.
func patchStatus(ctx context.Context, c client.StatusClient, before, after *eventingv1alpha2.Subscription) error {
	difference, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("compare status: %w", err)
	}
	if slices.Equal(difference, []byte("{}")) {
		return nil
	}
	var patch struct {
		Metadata map[string]any `json:"metadata"`
		Status   map[string]any `json:"status"`
	}
	if err := json.Unmarshal(difference, &patch); err != nil {
		return fmt.Errorf("compare status: %w", err)
	}
	patch.Metadata = map[string]any{"resourceVersion": before.ResourceVersion}
	patch.Status["ready"] = after.Status.Ready
	patch.Status["types"] = after.Status.Types
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	err = c.Status().Patch(ctx, before.DeepCopy(), client.RawPatch("application/merge-patch+json", data))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	return nil
}

// summary summarizes the other conditions in the terms of kstatus. Dead letters do not affect it.
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

// beforeSummary returns the index at which a further condition is inserted.
func beforeSummary(conditions []eventingv1alpha2.Condition) int {
	at := slices.IndexFunc(conditions, func(c eventingv1alpha2.Condition) bool { return kube.IsSummary(string(c.Type)) })
	if at < 0 {
		return len(conditions)
	}
	return at
}
