package serverless

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// setStatus writes into the status what the scope says.
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
			"found %d items with VersionKind %s: delete these Functions first, kubectl get functions -A lists them",
			s.functions, serverlessv1alpha2.GroupVersion))
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

// setInstalled says how the Function controller is, and returns the state that follows.
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

// setMirrors shows what is in force.
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
