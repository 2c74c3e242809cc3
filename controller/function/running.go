package function

import (
	"cmp"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// Reasons that the Deployment controller gives.
const (
	reasonRolloutDone          = "NewReplicaSetAvailable"
	reasonReplicasAvailable    = "MinimumReplicasAvailable"
	reasonReplicasNotAvailable = "MinimumReplicasUnavailable"
)

// runningCondition reports whether the Function runs. A Function that is asleep runs, and so does one that is just
// waking; one whose handler did not load does not, even while it is asleep.
func runningCondition(s *scope) conditionUpdate {
	if failed := failureOf(s.err); failed != nil &&
		(failed.condition == v1alpha2.ConditionRunning || failed.reason == v1alpha2.ReasonOwnedByOther) {
		return failedCondition(s, failed)
	}
	if !s.applied {
		return absentCondition(s)
	}
	before := runningBefore(s)
	switch {
	case s.change == created:
		return unknown(v1alpha2.ReasonDeploymentCreated, "Deployment %s created", s.fn.Name)
	case s.change == updated:
		return unknown(v1alpha2.ReasonDeploymentUpdated, "Deployment %s updated", s.fn.Name)
	case s.held() && before == nil:
		return awaitsCodeCondition(s)
	}
	if isStale(s) {
		if before != nil {
			return conditionUpdate{} // the Deployment's update requeues
		}
		return unknown(v1alpha2.ReasonDeploymentWaiting, "Deployment %s is not ready yet", s.fn.Name)
	}
	current := deploymentCondition(s, inspect(s.pods, s.template, s.now))
	if s.held() {
		current.generation = before.ObservedGeneration // what serves is that of an earlier spec
	}
	return current
}

// isStale reports whether the Deployment's status is about an earlier template, because its controller, or our cache,
// has not seen the last write.
func isStale(s *scope) bool {
	if s.deployment.Status.ObservedGeneration < s.deployment.Generation {
		return true
	}
	if s.held() {
		return false // s.template is the live one's
	}
	return s.deployment.Spec.Template.Annotations[resources.AnnotationTemplate] != s.template ||
		!s.scaled() && ptr.Deref(s.deployment.Spec.Replicas, 1) != ptr.Deref(s.fn.Spec.Replicas, 1)
}

// absentCondition is the condition when a reconciliation did not get as far as the Deployment. A new Function waits for
// its first image; any other keeps its condition.
func absentCondition(s *scope) conditionUpdate {
	if s.err == nil && s.held() && s.deployment == nil {
		return awaitsCodeCondition(s)
	}
	return conditionUpdate{}
}

func awaitsCodeCondition(s *scope) conditionUpdate {
	return unknown(v1alpha2.ReasonDeploymentWaiting, "Deployment %s waits for the image with its code", s.fn.Name)
}

// deploymentCondition reads an up-to-date Deployment and its pods.
func deploymentCondition(s *scope, found workers) conditionUpdate {
	progressing := conditionOf(s.deployment, appsv1.DeploymentProgressing)
	switch {
	case found.handler != "":
		return conditionUpdate{
			status: metav1.ConditionFalse, reason: v1alpha2.ReasonHandlerFailed,
			message: withOldReplicas(s, found.handler, found.others), stalls: true,
		}
	case conditionOf(s.deployment, appsv1.DeploymentReplicaFailure).Status == corev1.ConditionTrue,
		progressing.Status == corev1.ConditionFalse:
		return failedDeployment(s, found)
	}
	available := conditionOf(s.deployment, appsv1.DeploymentAvailable)
	// The reason may be that of the rollout before: the Deployment controller leaves it when it scales first.
	rolledOut := progressing.Reason == reasonRolloutDone && s.deployment.Status.UpdatedReplicas == s.deployment.Status.Replicas
	switch {
	case available.Status == corev1.ConditionFalse && available.Reason == reasonReplicasNotAvailable:
		return unavailableCondition(s, found, rolledOut)
	case available.Status == corev1.ConditionTrue && available.Reason == reasonReplicasAvailable && rolledOut:
		return readyCondition(s)
	default:
		return waitingCondition(s, found)
	}
}

func readyCondition(s *scope) conditionUpdate {
	message := fmt.Sprintf("Deployment %s is ready", s.fn.Name)
	if ptr.Deref(s.deployment.Spec.Replicas, 1) == 0 {
		if before := runningBefore(s); before != nil && before.Reason == v1alpha2.ReasonHandlerFailed {
			// It is asleep and would fail to load when woken.
			return conditionUpdate{status: before.Status, reason: before.Reason, message: before.Message, stalls: true}
		}
		message += " and sleeps at zero replicas"
		if missing := explainMissing(s); missing != "" {
			message += "; " + missing
		}
	}
	return conditionUpdate{status: metav1.ConditionTrue, reason: v1alpha2.ReasonDeploymentReady, message: message}
}

// waitingCondition is the condition of a Deployment with enough pods, but not all of the current template.
func waitingCondition(s *scope, found workers) conditionUpdate {
	message := fmt.Sprintf("Deployment %s is not ready yet", s.fn.Name)
	if found.graceLeft > 0 && found.detail == "" {
		return conditionUpdate{
			status: metav1.ConditionUnknown, reason: v1alpha2.ReasonDeploymentWaiting, message: message, requeueAfter: found.graceLeft,
		}
	}
	return unknown(v1alpha2.ReasonDeploymentWaiting, "%s", causeFirst(withOldReplicas(s, explainUnavailable(s, found), found.others), message))
}

// unavailableCondition distinguishes a Function that is waking or being scaled from one whose pods fail.
func unavailableCondition(s *scope, found workers, rolledOut bool) conditionUpdate {
	before := runningBefore(s)
	left := found.graceLeft
	if !found.present { // its pods are still to be created
		left = wakeGrace - s.now.Sub(conditionOf(s.deployment, appsv1.DeploymentAvailable).LastTransitionTime.Time)
	}
	if rolledOut && found.detail == "" && left > 0 && before != nil && before.Status != metav1.ConditionUnknown {
		return conditionUpdate{requeueAfter: left}
	}
	return unknown(v1alpha2.ReasonMinReplicasNotAvailable, "%s", causeFirst(withOldReplicas(s, explainUnavailable(s, found), found.others),
		"Minimum replicas not available for deployment "+s.fn.Name))
}

// causeFirst puts the cause of a condition before Kyma's message: lists and Events show the beginning.
func causeFirst(cause, message string) string {
	if cause == "" {
		return message
	}
	return strings.TrimRight(cause, ".\n ") + ". " + message
}

func explainUnavailable(s *scope, found workers) string {
	switch {
	case found.detail != "" && found.ended && s.overridden():
		return found.detail + ". " + overrideHint(s)
	case found.detail == "" && found.silent && s.overridden():
		return fmt.Sprintf("the pod runs and does not answer GET %s on port %d. %s", resources.HealthPath, resources.Port, overrideHint(s))
	case found.detail != "":
		return found.detail
	default:
		return explainMissing(s)
	}
}

// explainMissing names the Secrets without which no pod starts. The kubelet reports a missing volume only in events.
func explainMissing(s *scope) string {
	var parts []string
	for _, mount := range s.missingSecrets {
		parts = append(parts, fmt.Sprintf("Secret %q not found, which spec.secretMounts mounts at %s", mount.SecretName, mount.MountPath))
	}
	for _, name := range s.missingBindings {
		parts = append(parts, fmt.Sprintf("Secret %q not found, which a ServiceBinding names: its service makes it, or delete the ServiceBinding", name))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + "; no pod starts before that is there"
}

// failedDeployment reports what its pods do, or else why the Deployment fails, and quotes the Deployment's conditions.
func failedDeployment(s *scope, found workers) conditionUpdate {
	text, err := yaml.Marshal(s.deployment.Status.Conditions)
	if err != nil {
		text = []byte(err.Error())
	}
	cause := explainUnavailable(s, found)
	if cause == "" && found.others.ready > 0 {
		cause = cmp.Or(refusalOf(s.deployment), "no pod became ready in time")
	}
	cause = cmp.Or(withOldReplicas(s, cause, found.others), causeOf(s.deployment))
	return conditionUpdate{
		status:  metav1.ConditionFalse,
		reason:  v1alpha2.ReasonDeploymentFailed,
		message: causeFirst(cause, fmt.Sprintf("Deployment %s failed with condition: \n%s", s.fn.Name, text)),
		stalls:  conditionOf(s.deployment, appsv1.DeploymentProgressing).Status == corev1.ConditionFalse, // its progress deadline has passed
	}
}

// causeOf returns why a Deployment has failed by its own conditions.
func causeOf(deployment *appsv1.Deployment) string {
	progressing := conditionOf(deployment, appsv1.DeploymentProgressing)
	return cmp.Or(refusalOf(deployment), progressing.Message, progressing.Reason)
}

// refusalOf returns why the API server refuses a Deployment's pods, as a quota does; empty when it takes them.
func refusalOf(deployment *appsv1.Deployment) string {
	refused := conditionOf(deployment, appsv1.DeploymentReplicaFailure)
	if refused.Status != corev1.ConditionTrue {
		return ""
	}
	return cmp.Or(refused.Message, refused.Reason)
}

func runningBefore(s *scope) *metav1.Condition {
	return meta.FindStatusCondition(s.fn.Status.Conditions, v1alpha2.ConditionRunning)
}

func conditionOf(deployment *appsv1.Deployment, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return appsv1.DeploymentCondition{}
}

func unknown(reason, format string, args ...any) conditionUpdate {
	return conditionUpdate{status: metav1.ConditionUnknown, reason: reason, message: fmt.Sprintf(format, args...)}
}
