package function

import (
	"cmp"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/kube"
)

// conditionUpdate is a condition without its type and times. The zero value leaves the condition unchanged.
type conditionUpdate struct {
	status          metav1.ConditionStatus
	reason, message string
	// generation is the one that the condition is about; 0: the current one.
	generation int64
	// requeueAfter is when the condition becomes outdated without an event.
	requeueAfter time.Duration
	// stalls is true when only a change by a user resolves the condition.
	stalls bool
}

// setStatus computes the status of the scope's Function from everything else in the scope. It returns when to reconcile
// again without an event, or 0.
func setStatus(s *scope) time.Duration {
	s.stalled = stalledBefore(s.fn.Status.Conditions)
	defer summarize(s)
	s.fn.Status.ObservedGeneration = s.fn.Generation
	setCondition(s, v1alpha2.ConditionConfigurationReady, configurationCondition(s))
	if failed := failureOf(s.err); failed != nil && failed.condition == v1alpha2.ConditionConfigurationReady {
		return 0 // what runs is that of an earlier spec
	}
	describeBuild(s)
	running := runningCondition(s)
	setCondition(s, v1alpha2.ConditionRunning, running)
	if s.scaled() {
		setCondition(s, v1alpha2.ConditionScaling, scalingCondition(s))
	} else {
		meta.RemoveStatusCondition(&s.fn.Status.Conditions, v1alpha2.ConditionScaling)
	}
	describeWorkload(s, running)
	return sooner(running.requeueAfter, s.build.requeueAfter)
}

// sooner returns the shorter of two delays; 0 stands for none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// describeBuild describes the image, if the reconciliation got that far.
func describeBuild(s *scope) {
	switch {
	case !s.planned:
		return
	case s.build.status == "":
		meta.RemoveStatusCondition(&s.fn.Status.Conditions, v1alpha2.ConditionBuildReady)
	default:
		setCondition(s, v1alpha2.ConditionBuildReady, s.build)
	}
	switch {
	case s.image != nil:
		s.fn.Status.Build = s.image
	case s.plan == nil || s.code.Kyma || s.build.reason == v1alpha2.ReasonNoRegistry:
		s.fn.Status.Build = nil
	}
}

// awaitsCommit reports whether the commit of the source is unknown.
func awaitsCommit(s *scope) bool {
	return s.plan != nil && s.plan.Git != nil && s.plan.Git.Commit == ""
}

func setCondition(s *scope, condition string, v conditionUpdate) {
	if v.status == "" {
		return
	}
	s.stalled[condition] = v.stalls
	kube.SetCondition(&s.fn.Status.Conditions, metav1.Condition{
		Type:               condition,
		Status:             v.status,
		Reason:             v.reason,
		Message:            v.message,
		ObservedGeneration: cmp.Or(v.generation, s.fn.Generation),
	}, s.now)
}

func configurationCondition(s *scope) conditionUpdate {
	if failed := failureOf(s.err); failed != nil && failed.condition == v1alpha2.ConditionConfigurationReady {
		return failedCondition(s, failed)
	}
	switch {
	case s.source.status != "":
		return s.source
	case s.rolledBack:
		return rolledBackCondition(s)
	case awaitsCommit(s):
		return conditionUpdate{} // until the first check of the repository
	}
	if updated := updatedCondition(s); updated.status != "" {
		return updated
	}
	message := "Function configured"
	if found := admission.FunctionWarnings(s.fn); len(found) > 0 {
		message = "Warning: function configured, " + found.String()
	}
	return conditionUpdate{status: metav1.ConditionTrue, reason: v1alpha2.ReasonSpecValidated, message: message}
}

// describeWorkload fills in the fields that are not conditions. The number of pods and their selector are always
// current, because autoscalers read them.
func describeWorkload(s *scope, running conditionUpdate) {
	if s.deployment == nil || !metav1.IsControlledBy(s.deployment, s.fn) {
		return
	}
	status := &s.fn.Status
	status.Replicas = s.deployment.Status.Replicas
	status.PodSelector = resources.PodSelector(s.fn)
	if !s.applied || s.held() || s.postponed {
		return
	}
	status.FunctionAnnotations = maps.Clone(s.fn.Spec.Annotations)
	if running.status != metav1.ConditionTrue {
		return // a condition that stayed True may be about the code before
	}
	describeSource(s)
	status.Runtime = s.code.Runtime
	status.RuntimeImage = s.code.Image
	status.Version = s.code.Version()
	status.FunctionResourceProfile, _ = resources.Requirements(s.fn, s.settings)
	status.ContainerSecurityContext = resources.ContainerSecurityContext(s.fn, s.code.Kyma)
	status.PodSecurityContext = resources.PodSecurityContext(s.fn)
}

// summarize derives Ready and Stalled. A Function without a registry or without KEDA serves, with restrictions.
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

// stalledBefore returns the conditions that stalled the Function and hold until a reconciliation gets as far again.
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

// failedCondition returns the condition of a failure that ended the phases.
func failedCondition(s *scope, failed *failure) conditionUpdate {
	v := failureCondition(failed)
	v.stalls = kube.IsStalled(s.err)
	return v
}

// announce emits an event for each condition that changed.
func (r *Reconciler) announce(fn *v1alpha2.Function, before []metav1.Condition) {
	for _, condition := range kube.Transitions(before, fn.Status.Conditions) {
		if kube.IsSummary(condition.Type) {
			continue // it repeats another one
		}
		kind := corev1.EventTypeNormal
		if condition.Status == metav1.ConditionFalse || strings.HasPrefix(condition.Message, "Warning") {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(fn, nil, kind, condition.Reason, "Reconcile", "%s", kube.Truncate(condition.Message, kube.MaxEventNote))
	}
}
