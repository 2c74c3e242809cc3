package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxConditionMessage is the longest message that the API server accepts.
const MaxConditionMessage = 32768

// SetCondition adds or updates condition. The transition time is set to now if the status changes, and kept otherwise.
func SetCondition(conditions *[]metav1.Condition, condition metav1.Condition, now time.Time) {
	condition.Message = Truncate(condition.Message, MaxConditionMessage)
	condition.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(conditions, condition)
}

// Truncate cuts s to at most limit bytes at a character boundary.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Transitions returns the conditions of after that are new, or whose status or reason differs from before.
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

// Conditions that tools expect on any object, by the conventions of kstatus.
const (
	// ConditionReady is True when the object matches its spec, in its current generation.
	ConditionReady = "Ready"
	// ConditionStalled is True when a user has to act, and is absent otherwise.
	ConditionStalled = "Stalled"
	// ReasonProgressing accompanies Unknown of ConditionReady when no other condition gives a reason.
	ReasonProgressing = "Progressing"
)

// MaxSummaryMessage bounds the messages of a summary, so that caches do not hold long ones three times.
const MaxSummaryMessage = 1024

// Aspect is a condition that Ready depends on.
type Aspect struct {
	Type string
	// Optional means that an object without the condition may be Ready.
	Optional bool
	// Tolerated are reasons with which the condition need not be True.
	Tolerated []string
	// Stalled means that only a change by a user helps while the condition is False.
	Stalled bool
}

// Summary is the overall state derived from an object's conditions: Ready and Stalled.
type Summary struct {
	Ready metav1.Condition
	// Stalled is nil when the object needs no action of a user.
	Stalled *metav1.Condition
}

// IsStalled reports whether a retry would not help.
func IsStalled(err error) bool {
	_, stalled := errors.AsType[*StalledError](err)
	return stalled
}

// IsSummary reports whether a condition of this type only repeats others.
func IsSummary(kind string) bool { return kind == ConditionReady || kind == ConditionStalled }

// SetSummary appends Ready and Stalled to the conditions that they are derived from.
func SetSummary(conditions *[]metav1.Condition, generation int64, now time.Time, aspects ...Aspect) {
	Summarize(*conditions, generation, aspects...).Set(conditions, now)
}

// Summarize derives Ready and Stalled. A stalling condition has the highest precedence, then one that is False, then
// one that is Unknown, each in the order of aspects. When all are True, Ready repeats the last aspect that is not
// optional.
func Summarize(conditions []metav1.Condition, generation int64, aspects ...Aspect) Summary {
	ready := metav1.Condition{Status: metav1.ConditionTrue, Reason: ConditionReady}
	most := fine
	for _, aspect := range aspects {
		said, weight := aspect.weigh(meta.FindStatusCondition(conditions, aspect.Type), generation)
		if weight > most || weight == fine && most == fine && !aspect.Optional {
			ready.Status, ready.Reason, ready.Message, most = said.Status, said.Reason, Brief(aspect.Type, said.Message), weight
		}
	}
	ready.Type, ready.ObservedGeneration = ConditionReady, generation
	if most != stalls {
		return Summary{Ready: ready}
	}
	stalled := ready
	stalled.Type, stalled.Status = ConditionStalled, metav1.ConditionTrue
	return Summary{Ready: ready, Stalled: &stalled}
}

// Brief returns the message of a condition for a summary. The middle of a long one is omitted: the end contains the
// remedy.
func Brief(kind, message string) string {
	if len(message) <= MaxSummaryMessage {
		return message
	}
	gap := fmt.Sprintf(" ... (all of it: %s) ... ", kind)
	rest := MaxSummaryMessage - len(gap)
	end := message[len(message)-rest/2:]
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	return Truncate(message, rest/2) + gap + end
}

// Set appends the summary to the other conditions. A transition time changes only with its status.
func (s Summary) Set(conditions *[]metav1.Condition, now time.Time) {
	var kept, summary []metav1.Condition
	for _, condition := range *conditions {
		switch {
		case !IsSummary(condition.Type):
			kept = append(kept, condition)
		case condition.Type == ConditionReady || s.Stalled != nil:
			summary = append(summary, condition)
		}
	}
	SetCondition(&summary, s.Ready, now)
	if s.Stalled != nil {
		SetCondition(&summary, *s.Stalled, now)
	}
	*conditions = slices.Concat(kept, summary)
}

// The precedence of an aspect among others.
const (
	none = iota
	fine
	unknown
	failing
	stalls
)

// weigh returns the state of a condition for this generation, and its precedence.
func (a Aspect) weigh(found *metav1.Condition, generation int64) (metav1.Condition, int) {
	switch {
	case found == nil && a.Optional:
		return metav1.Condition{}, none
	case found == nil:
		return pending(a.Type + " is not known yet"), unknown
	case slices.Contains(a.Tolerated, found.Reason):
		return metav1.Condition{}, none
	}
	// A condition without a generation is about the current one.
	late := found.ObservedGeneration != 0 && found.ObservedGeneration < generation
	switch found.Status {
	case metav1.ConditionTrue:
		if late {
			return pending(fmt.Sprintf("%s is about generation %d, and not yet about %d", a.Type, found.ObservedGeneration, generation)), unknown
		}
		return *found, fine
	case metav1.ConditionFalse:
		if a.Stalled && !late {
			return *found, stalls
		}
		return *found, failing
	default:
		return *found, unknown
	}
}

func pending(message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonProgressing, Message: message}
}

// PatchStatus writes the difference between the status of before and after, which are two states of one object. It
// makes no request without a difference, and returns no error for a deleted object. An object that was changed since it
// was read results in a conflict: the status may be derived from outdated state.
func PatchStatus(ctx context.Context, c client.StatusClient, before, after client.Object) error {
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("compare status of %q: %w", client.ObjectKeyFromObject(after), err)
	}
	if string(data) == "{}" {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	// The response would overwrite after; a copy protects the caller's object.
	written, ok := after.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("patch status: %s is not an object", reflect.TypeOf(after))
	}
	if err := c.Status().Patch(ctx, written, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of %q: %w", client.ObjectKeyFromObject(after), err)
	}
	return nil
}
