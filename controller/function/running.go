package function

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
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
	if detail := withOldReplicas(s, explainUnavailable(s, found), found.others); detail != "" {
		message += ": " + detail
	}
	return conditionUpdate{status: metav1.ConditionUnknown, reason: v1alpha2.ReasonDeploymentWaiting, message: message}
}

// unavailableCondition distinguishes a Function that is waking or being scaled from one whose pods fail.
func unavailableCondition(s *scope, found workers, rolledOut bool) conditionUpdate {
	before := runningBefore(s)
	if rolledOut && found.detail == "" && found.graceLeft > 0 && before != nil && before.Status != metav1.ConditionUnknown {
		return conditionUpdate{requeueAfter: found.graceLeft}
	}
	message := "Minimum replicas not available for deployment " + s.fn.Name
	if detail := withOldReplicas(s, explainUnavailable(s, found), found.others); detail != "" {
		message += ": " + detail
	}
	return conditionUpdate{status: metav1.ConditionUnknown, reason: v1alpha2.ReasonMinReplicasNotAvailable, message: message}
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
	if len(s.missingSecrets) > 0 {
		parts = append(parts, "a pod starts once the Secrets of spec.secretMounts exist. Missing: "+strings.Join(s.missingSecrets, ", "))
	}
	if len(s.missingBindings) > 0 {
		parts = append(parts, "a pod starts once the Secrets of its ServiceBindings exist. Missing: "+strings.Join(s.missingBindings, ", ")+
			"; their services make them, or delete the ServiceBindings")
	}
	return strings.Join(parts, "; ")
}

// failedDeployment quotes the conditions of the Deployment and what its pods report.
func failedDeployment(s *scope, found workers) conditionUpdate {
	text, err := yaml.Marshal(s.deployment.Status.Conditions)
	if err != nil {
		text = []byte(err.Error())
	}
	detail := explainUnavailable(s, found)
	if detail == "" && found.others.ready > 0 {
		detail = "no pod became ready in time"
	}
	text = append(text, withOldReplicas(s, detail, found.others)...)
	return conditionUpdate{
		status:  metav1.ConditionFalse,
		reason:  v1alpha2.ReasonDeploymentFailed,
		message: fmt.Sprintf("Deployment %s failed with condition: \n%s", s.fn.Name, text),
		stalls:  conditionOf(s.deployment, appsv1.DeploymentProgressing).Status == corev1.ConditionFalse, // its progress deadline has passed
	}
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

// Reasons of the kubelet for a failed image pull.
const (
	reasonErrImagePull     = "ErrImagePull"
	reasonImagePullBackOff = "ImagePullBackOff"
	// backOffPrefix begins the message of reasonImagePullBackOff; the image follows, and then the failure.
	backOffPrefix = `Back-off pulling image "`
)

// wakeGrace is how long a pod may take to become ready before the Function no longer counts as running.
const wakeGrace = 30 * time.Second

// trouble is what keeps a pod from being ready.
type trouble struct {
	// handler is the runtime's error when the handler does not load.
	handler string
	// detail is any other reason.
	detail string
	// ended is true when detail reports only that the Function's container ended, without a reason.
	ended bool
}

// workers summarizes the pods of the current template.
type workers struct {
	trouble
	// silent is true when a container runs that should be ready by now.
	silent bool
	// graceLeft is how long pods may still start; not positive if none does.
	graceLeft time.Duration
	// others are pods of an earlier template that serve.
	others oldReplicas
}

// inspect summarizes the pods of the Function.
func inspect(pods []corev1.Pod, template string, now time.Time) workers {
	var found workers
	for i := range pods {
		pod := &pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if pod.Annotations[resources.AnnotationTemplate] != template {
			if isReady(pod) {
				found.others.add(pod)
			}
			continue
		}
		problem := troubleOf(pod)
		if found.handler == "" {
			found.handler = problem.handler
		}
		if found.detail == "" {
			found.detail, found.ended = problem.detail, problem.ended
		}
		if problem == (trouble{}) && !isReady(pod) {
			left := wakeGrace - now.Sub(pod.CreationTimestamp.Time)
			found.graceLeft = max(found.graceLeft, left)
			found.silent = found.silent || left <= 0 && runsFunction(pod)
		}
	}
	return found
}

// troubleOf returns why a pod is not ready, as far as Kubernetes reports it.
func troubleOf(pod *corev1.Pod) trouble {
	if isReady(pod) {
		return trouble{}
	}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if done := status.State.Terminated; done != nil && done.ExitCode == 0 {
			continue
		}
		if found := containerTrouble(status); found != (trouble{}) {
			return found
		}
	}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if found := containerTrouble(status); found != (trouble{}) {
			return found
		}
	}
	return trouble{detail: unscheduled(pod)}
}

// unscheduled returns why no node takes the pod, empty if one does.
func unscheduled(pod *corev1.Pod) string {
	if scheduled := podCondition(pod, corev1.PodScheduled); scheduled.Status == corev1.ConditionFalse {
		return "the pod is unschedulable: " + scheduled.Message
	}
	return ""
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func containerTrouble(status *corev1.ContainerStatus) trouble {
	ended := status.State.Terminated
	if ended == nil {
		ended = status.LastTerminationState.Terminated
	}
	waiting := status.State.Waiting
	switch {
	case waiting != nil && isPullOrConfigError(waiting.Reason):
		return trouble{detail: waitingDetail(waiting)}
	case ended == nil:
		return trouble{}
	case ended.ExitCode != 0 && status.Name == resources.ContainerName && strings.TrimSpace(ended.Message) != "":
		return trouble{handler: strings.TrimSpace(ended.Message)}
	case explainedByBuilder(ended) != "":
		return trouble{detail: explainedByBuilder(ended)}
	default:
		return trouble{detail: fmt.Sprintf("container %s ended with exit code %d (%s), restarted %d times; see its log",
			status.Name, ended.ExitCode, ended.Reason, status.RestartCount), ended: status.Name == resources.ContainerName}
	}
}

// waitingDetail quotes why a container waits. Kubernetes alternates between a failed pull and the wait for the next
// one, which quotes the failure: both give the same text.
func waitingDetail(waiting *corev1.ContainerStateWaiting) string {
	if waiting.Reason == reasonImagePullBackOff {
		if _, failure, quoted := strings.Cut(waiting.Message, `": `); quoted && strings.HasPrefix(waiting.Message, backOffPrefix) {
			return failure
		}
	}
	return strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": ")
}

// explainedByBuilder returns why a container that prepares the code has failed, empty for any other container.
func explainedByBuilder(ended *corev1.ContainerStateTerminated) string {
	result, err := buildplan.DecodeResult(ended.Message)
	if err != nil || ended.ExitCode == 0 {
		return ""
	}
	return withLog(result)
}

func isPullOrConfigError(reason string) bool {
	switch reason {
	case reasonErrImagePull, reasonImagePullBackOff, "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	default:
		return false
	}
}

func isReady(pod *corev1.Pod) bool {
	return podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// runsFunction reports whether the container with the handler has started.
func runsFunction(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.Name == resources.ContainerName && status.State.Running != nil
	})
}

// troubleDiffers reports whether the change of a pod matters. Its readiness also changes its Deployment, which is
// watched.
func troubleDiffers(before, after client.Object) bool {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	return was == nil || is == nil || troubleOf(was) != troubleOf(is) || hasBuilt(was) != hasBuilt(is)
}

// hasBuilt reports whether the pod of a build has reported the digest that it pushed.
func hasBuilt(pod *corev1.Pod) bool {
	result, told := resultOfPods([]corev1.Pod{*pod})
	return told && result.Digest != ""
}

// oldReplicas counts the ready pods of an earlier template. They serve while those of the current one do not start.
type oldReplicas struct {
	ready   int
	version string
	newest  time.Time
}

func (i *oldReplicas) add(pod *corev1.Pod) {
	i.ready++
	if created := pod.CreationTimestamp.Time; i.version == "" || created.After(i.newest) {
		i.version, i.newest = pod.Annotations[resources.AnnotationVersion], created
	}
}

// withOldReplicas adds to the reason why the pods of the current template do not start that older replicas keep
// serving, if they do.
func withOldReplicas(s *scope, detail string, others oldReplicas) string {
	if others.ready == 0 || detail == "" {
		return detail
	}
	count := fmt.Sprintf("%d of %d replicas", others.ready, ptr.Deref(s.deployment.Spec.Replicas, 1))
	if others.version == s.code.Version() || others.version == "" {
		return fmt.Sprintf("the changed pods do not start: %s; those from before the change keep serving with %s", detail, count)
	}
	return fmt.Sprintf("the new version does not start: %s; version %s keeps serving with %s", detail, others.version, count)
}
