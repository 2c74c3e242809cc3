package schedule

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/schedule"
)

// state is what the status is computed from.
type state struct {
	plan      schedule.Plan
	invalid   error  // what the user has to correct
	over      string // why the Schedule exceeds the share of its namespace
	forbidden error  // why the namespace may not publish the event
	cursor    broker.Cursor
	unread    error // why the cursor is not known
}

// upcoming is the number of next due times in the status.
const upcoming = 3

// setStatus computes the status.
func setStatus(s *v1alpha1.Schedule, found state, now time.Time) {
	status := &s.Status
	status.ObservedGeneration = s.Generation
	if found.unread == nil {
		setCursor(status, found.cursor)
	}
	status.NextDue = nil
	if holds(found) {
		for last := now; len(status.NextDue) < upcoming; {
			next, ok := found.plan.Next(last)
			if !ok {
				break
			}
			status.NextDue = append(status.NextDue, metav1.NewTime(next.UTC()))
			last = next
		}
	}
	ready := readyOf(s, found)
	ready.Type, ready.ObservedGeneration = v1alpha1.ConditionReady, s.Generation
	kube.SetCondition(&status.Conditions, ready, now)
}

func setCursor(status *v1alpha1.ScheduleStatus, cursor broker.Cursor) {
	if cursor.LastDue.IsZero() && status.LastDue != nil {
		return // the cursor is lost, and the status alone knows what was published
	}
	status.LastDue, status.LastPublished = timeOf(cursor.LastDue), timeOf(cursor.LastPublished)
	status.LastID, status.Published, status.Missed = cursor.LastID, cursor.Published, cursor.Missed
}

// timeOf has the precision that the API server keeps.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	stored := metav1.NewTime(t.Truncate(time.Second))
	return &stored
}

func holds(found state) bool {
	return found.invalid == nil && found.over == "" && found.forbidden == nil && !found.plan.Paused
}

func readyOf(s *v1alpha1.Schedule, found state) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	switch {
	case found.invalid != nil:
		return no(v1alpha1.ReasonInvalid, found.invalid.Error())
	case found.plan.Paused:
		return no(v1alpha1.ReasonPaused, "spec.paused is true: nothing is published, and nothing of it is made up for later")
	case found.over != "":
		return no(v1alpha1.ReasonShareExceeded, found.over)
	case found.forbidden != nil:
		return no(v1alpha1.ReasonForbidden, found.forbidden.Error())
	case found.unread != nil:
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUnknown,
			Message: fmt.Sprintf("what was published last cannot be read: %v", found.unread),
		}
	case len(s.Status.NextDue) == 0:
		return no(v1alpha1.ReasonFinished, "nothing is due any more")
	default:
		return metav1.Condition{
			Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonScheduled,
			Message: "events are published when they are due; status.nextDue has the next times",
		}
	}
}
