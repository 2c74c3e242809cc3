package function

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
)

// Reasons of the kubelet for a failed image pull, and for a ConfigMap or Secret that is missing.
const (
	reasonErrImagePull     = "ErrImagePull"
	reasonImagePullBackOff = "ImagePullBackOff"
	reasonConfigError      = "CreateContainerConfigError"
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
	// present is true when there is such a pod.
	present bool
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
		found.present = true
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
	if waiting.Reason == reasonConfigError && waiting.Message != "" {
		return kinds.Replace(waiting.Message)
	}
	return strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": ")
}

// kinds writes kinds as users do. The kubelet does not.
var kinds = strings.NewReplacer(`configmap "`, `ConfigMap "`, `secret "`, `Secret "`)

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
		reasonConfigError, "CreateContainerError", "RunContainerError":
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

// troubleDiffers reports whether the trouble of a pod changes. Its readiness also changes its Deployment, which is
// watched.
func troubleDiffers(before, after client.Object) bool {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	return was == nil || is == nil || troubleOf(was) != troubleOf(is)
}

// endsBuild passes the update by which a pod reports what it has built, for which a Function waits.
func endsBuild() predicate.Predicate {
	return predicate.And(predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && hasBuilt(pod)
	}), predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*corev1.Pod)
		return !ok || !hasBuilt(was)
	}})
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
