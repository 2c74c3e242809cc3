package function

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
)

const reasonOOMKilled = "OOMKilled"

// resultOf is the result of a Job that has ended, as its pod reports it.
func resultOf(job *batchv1.Job, pods []corev1.Pod) buildplan.Result {
	if text := job.Annotations[annotationProblem]; text != "" {
		if result, err := buildplan.DecodeResult(text); err == nil {
			return result
		}
	}
	result, ok := resultOfPods(pods)
	late := deadlineExceeded(job, pods)
	if ok && (result.Digest != "" || !late) {
		return result
	}
	switch {
	case late:
		return buildplan.Result{Reason: language.Interrupted, Message: "The build took longer than builds may. " +
			"Give it more with spec.resourceConfiguration.build, use fewer packages, or let builds take longer with --build-deadline"}
	case len(pods) > 0 && strings.Contains(pods[0].Status.Message, "EmptyDir volume"):
		return buildplan.Result{Reason: language.ImageTooLarge, Message: "The build wrote more than one of its volumes may hold. " +
			"Depend on less, or ask the operator for a larger --build-volume-size"}
	case len(pods) > 0 && pods[0].Status.Reason != "": // evicted, or its node is gone
		return buildplan.Result{Reason: language.Interrupted, Message: "The pod of the build was ended: " +
			strings.TrimSuffix(pods[0].Status.Reason+": "+pods[0].Status.Message, ": ")}
	default:
		return buildplan.Result{Reason: language.Interrupted, Message: "The pod of the build is gone before it told what it did"}
	}
}

// deadlineExceeded reports whether a deadline ended the build: that of its pod,
// or that of its Job.
func deadlineExceeded(job *batchv1.Job, pods []corev1.Pod) bool {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		if jobCondition(job, kind).Reason == batchv1.JobReasonDeadlineExceeded {
			return true
		}
	}
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Status.Reason == batchv1.JobReasonDeadlineExceeded })
}

// endingProblem is why a Job is about to fail whose pods Kubernetes is deleting,
// empty for any other Job.
func endingProblem(job *batchv1.Job, pods []corev1.Pod) string {
	if job.Annotations[annotationProblem] == "" && jobCondition(job, batchv1.JobFailureTarget).Type == "" {
		return ""
	}
	return resultOf(job, pods).Message
}

// resultOfPods is what the containers of a build have reported.
func resultOfPods(pods []corev1.Pod) (buildplan.Result, bool) {
	for i := range pods {
		statuses := slices.Concat(pods[i].Status.ContainerStatuses, pods[i].Status.InitContainerStatuses)
		for j := range statuses {
			if result, ok := resultOfContainer(&statuses[j]); ok {
				return result, true
			}
		}
	}
	return buildplan.Result{}, false
}

// resultOfContainer reads the message that the builder left.
func resultOfContainer(status *corev1.ContainerStatus) (buildplan.Result, bool) {
	ended := status.State.Terminated
	if ended == nil || ended.ExitCode == 0 && status.Name != resources.PushContainerName {
		return buildplan.Result{}, false
	}
	result, err := buildplan.DecodeResult(ended.Message)
	switch {
	case err == nil && (result.Digest != "" || result.Reason != ""):
		return result, true
	case ended.Reason == reasonOOMKilled:
		return buildplan.Result{Reason: language.OutOfMemory, Message: "The build ran out of memory. " +
			"Give it more with spec.resourceConfiguration.build, such as profile: fast"}, true
	case ended.ExitCode == 0:
		return buildplan.Result{}, false
	default:
		return buildplan.Result{Reason: language.Interrupted, Message: fmt.Sprintf("Container %s of the build ended with exit code %d (%s) "+
			"and said no more; its log may", status.Name, ended.ExitCode, ended.Reason)}, true
	}
}

// withLog is the message of a result and the end of the log.
func withLog(result buildplan.Result) string {
	log := strings.TrimSpace(result.Log)
	if log == "" {
		return result.Message
	}
	return strings.TrimSuffix(result.Message, ".") + ". The last lines of the log:\n" + log + "\n"
}

// buildTrouble is what keeps a build from running; empty when nothing does.
func buildTrouble(pods []corev1.Pod) string {
	for i := range pods {
		for _, statuses := range [][]corev1.ContainerStatus{pods[i].Status.InitContainerStatuses, pods[i].Status.ContainerStatuses} {
			for j := range statuses {
				if waiting := statuses[j].State.Waiting; waiting != nil && isPullOrConfigError(waiting.Reason) {
					return waitingDetail(waiting)
				}
			}
		}
		if condition := unscheduled(&pods[i]); condition != "" {
			return condition
		}
	}
	return ""
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) batchv1.JobCondition {
	for _, condition := range job.Status.Conditions {
		if condition.Type == kind && condition.Status == corev1.ConditionTrue {
			return condition
		}
	}
	return batchv1.JobCondition{}
}

// problemOf writes down why the controller ends a build that cannot begin.
func problemOf(trouble string) (string, error) {
	text, err := json.Marshal(buildplan.Result{
		Reason:  language.Interrupted,
		Message: "The pod of the build does not start: " + cmp.Or(trouble, "Kubernetes reports no reason"),
	})
	return string(text), err
}
