package serverless

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// setStatus computes the status from the scope.
func setStatus(s *scope, now time.Time) {
	status := &s.serverless.Status
	status.ObservedGeneration = s.serverless.Generation
	set := func(condition string, value metav1.ConditionStatus, reason, message string) {
		kube.SetCondition(&status.Conditions, metav1.Condition{Type: condition, Status: value, Reason: reason, Message: message}, now)
	}
	switch {
	case s.isDeleted():
		setDeletion(s, set)
	case !s.allowed:
		if !s.isServed() {
			status.Served = operatorv1alpha1.ServedFalse
		}
		status.State = operatorv1alpha1.StateError
		set(operatorv1alpha1.ConditionConfigured, metav1.ConditionFalse, operatorv1alpha1.ReasonConfigurationErr,
			misplaced(s.serverless.Namespace, s.namespaces))
	case !s.isServed():
		status.Served, status.State = operatorv1alpha1.ServedFalse, operatorv1alpha1.StateWarning
		set(operatorv1alpha1.ConditionConfigured, metav1.ConditionFalse, operatorv1alpha1.ReasonServerlessDuplicated, fmt.Sprintf(
			"only one instance of Serverless is allowed (current served instance: %s/%s) - this Serverless CR is redundant - remove it to fix the problem",
			s.served.Namespace, s.served.Name))
	default:
		status.Served = operatorv1alpha1.ServedTrue
		setInstallation(s, set)
	}
	summarize(s, now)
}

type setter func(condition string, value metav1.ConditionStatus, reason, message string)

func setDeletion(s *scope, set setter) {
	status := &s.serverless.Status
	status.State = operatorv1alpha1.StateDeleting
	switch {
	case s.functions > 0:
		status.State = operatorv1alpha1.StateWarning
		set(operatorv1alpha1.ConditionDeleted, metav1.ConditionFalse, operatorv1alpha1.ReasonDeletionErr, fmt.Sprintf(
			"found %d items with VersionKind %s", s.functions, serverlessv1alpha2.GroupVersion))
	case s.failed != nil && !apierrors.IsConflict(s.failed):
		status.State = operatorv1alpha1.StateError
		set(operatorv1alpha1.ConditionDeleted, metav1.ConditionFalse, operatorv1alpha1.ReasonDeletionErr, s.failed.Error())
	case s.removed:
		set(operatorv1alpha1.ConditionDeleted, metav1.ConditionTrue, operatorv1alpha1.ReasonDeleted, "Serverless module deleted")
	case s.removing:
		set(operatorv1alpha1.ConditionDeleted, metav1.ConditionUnknown, operatorv1alpha1.ReasonDeletion, "Deleting module resources")
	default:
		set(operatorv1alpha1.ConditionDeleted, metav1.ConditionUnknown, operatorv1alpha1.ReasonDeletion, "Uninstalling")
	}
}

func setInstallation(s *scope, set setter) {
	status := &s.serverless.Status
	if s.settings != nil {
		setMirrors(s)
		status.State = setInstalled(s, set)
	}
	if s.invalid != nil {
		status.State = operatorv1alpha1.StateError
		set(operatorv1alpha1.ConditionConfigured, metav1.ConditionFalse, operatorv1alpha1.ReasonConfigurationErr, s.invalid.Error())
		return
	}
	set(operatorv1alpha1.ConditionConfigured, metav1.ConditionTrue, operatorv1alpha1.ReasonConfigured, "Configuration ready")
}

// setInstalled reports the Function controller's condition, and returns the resulting state.
func setInstalled(s *scope, set setter) operatorv1alpha1.State {
	conditions := &s.serverless.Status.Conditions
	failed := func(err error) operatorv1alpha1.State {
		set(operatorv1alpha1.ConditionInstalled, metav1.ConditionFalse, operatorv1alpha1.ReasonInstallationErr, err.Error())
		return operatorv1alpha1.StateError
	}
	if s.failed != nil && !apierrors.IsConflict(s.failed) {
		return failed(s.failed)
	}
	stand := rollout{}
	if s.deployment != nil {
		stand = verify(s.deployment)
	}
	if stand.failure != "" {
		set(operatorv1alpha1.ConditionDeploymentFailure, metav1.ConditionTrue, operatorv1alpha1.ReasonDeploymentReplicaFailure, stand.failure)
	} else {
		meta.RemoveStatusCondition(conditions, operatorv1alpha1.ConditionDeploymentFailure)
	}
	switch {
	case stand.stalled != nil:
		return failed(stand.stalled)
	case stand.ready:
		set(operatorv1alpha1.ConditionInstalled, metav1.ConditionTrue, operatorv1alpha1.ReasonInstalled, "Serverless installed")
		return operatorv1alpha1.StateReady
	}
	set(operatorv1alpha1.ConditionInstalled, metav1.ConditionUnknown, operatorv1alpha1.ReasonInstallation, "Installing for configuration")
	if stand.failure != "" {
		return operatorv1alpha1.StateError
	}
	return operatorv1alpha1.StateProcessing
}

// setMirrors reports the settings in effect.
func setMirrors(s *scope) {
	status := &s.serverless.Status
	status.EventingEndpoint = s.settings.EventingEndpoint
	status.TracingEndpoint = s.settings.TracingEndpoint
	status.FunctionRequeueDuration = s.settings.FunctionRequeueDuration
	status.HealthzLivenessTimeout = s.settings.HealthzLivenessTimeout
	status.DefaultRuntimePodPreset = s.settings.DefaultPreset
	status.LogLevel = s.settings.LogLevel
	status.LogFormat = s.settings.LogFormat
	status.NetworkPoliciesEnabled = "False"
	if s.networkPolicies {
		status.NetworkPoliciesEnabled = "True"
	}
}

// functionsRemedy follows Kyma's message in Ready and in the Event: tools compare Kyma's conditions with Kyma's texts.
const functionsRemedy = ": delete these Functions first, kubectl get functions -A lists them"

// summarize derives Ready and Stalled. A problem that another object can resolve does not stall: a redundant Serverless
// replaces the served one once that is deleted.
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
	summary := kube.Summarize(desirable(status.Conditions), s.serverless.Generation, aspects...)
	if s.functions > 0 {
		summary.Ready.Message += functionsRemedy
	}
	summary.Set(&status.Conditions, now)
}

// desirable returns the conditions with those inverted for which True is bad.
func desirable(conditions []metav1.Condition) []metav1.Condition {
	turned := slices.Clone(conditions)
	for _, kind := range []string{operatorv1alpha1.ConditionDeploymentFailure, operatorv1alpha1.ConditionDeleted} {
		if found := meta.FindStatusCondition(turned, kind); found != nil && found.Status == metav1.ConditionTrue {
			found.Status = metav1.ConditionFalse
		}
	}
	return turned
}

type notice struct{ kind, reason, note string }

// notices returns the events for a change of the status.
func notices(before, after *operatorv1alpha1.ServerlessStatus) []notice {
	var all []notice
	for _, value := range []struct{ name, old, now string }{
		{"Eventing endpoint", before.EventingEndpoint, after.EventingEndpoint},
		{"Tracing endpoint", before.TracingEndpoint, after.TracingEndpoint},
		{"Function requeue duration", before.FunctionRequeueDuration, after.FunctionRequeueDuration},
		{"Duration of health check", before.HealthzLivenessTimeout, after.HealthzLivenessTimeout},
		{"Default runtime pod preset", before.DefaultRuntimePodPreset, after.DefaultRuntimePodPreset},
		{"Log level", before.LogLevel, after.LogLevel},
		{"Log format", before.LogFormat, after.LogFormat},
		{"NetworkPolicies enabled", before.NetworkPoliciesEnabled, after.NetworkPoliciesEnabled},
	} {
		if value.old != value.now {
			all = append(all, notice{
				corev1.EventTypeNormal, operatorv1alpha1.ReasonConfiguration,
				fmt.Sprintf("%s set from '%s' to '%s'", value.name, value.old, value.now),
			})
		}
	}
	ready := meta.FindStatusCondition(after.Conditions, kube.ConditionReady)
	for _, condition := range after.Conditions {
		if kube.IsSummary(condition.Type) {
			continue // it only repeats other conditions
		}
		if known := meta.FindStatusCondition(before.Conditions, condition.Type); known == nil || known.Status != condition.Status ||
			known.Reason != condition.Reason || known.Message != condition.Message {
			all = append(all, notice{kindOf(&condition), condition.Reason, withRemedy(&condition, ready)})
		}
	}
	return all
}

// withRemedy returns the message of a condition, with the remedy that Ready has added to it.
func withRemedy(condition, ready *metav1.Condition) string {
	if ready != nil && ready.Reason == condition.Reason && strings.HasPrefix(ready.Message, condition.Message) {
		return ready.Message
	}
	return condition.Message
}

func kindOf(condition *metav1.Condition) string {
	if condition.Status == metav1.ConditionFalse || strings.HasPrefix(condition.Message, "Warning") {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// announce emits the events.
func (r *Reconciler) announce(before, after *operatorv1alpha1.Serverless) {
	for _, n := range notices(&before.Status, &after.Status) {
		r.recorder.Eventf(after, nil, n.kind, n.reason, action(n.note), "%s", kube.Truncate(n.note, kube.MaxEventNote))
	}
}

// action distinguishes Events: the recorder counts Events that differ only in their note as one, and shows the first
// note.
func action(note string) string {
	sum := sha256.Sum256([]byte(note))
	return "Reconcile-" + hex.EncodeToString(sum[:4])
}
