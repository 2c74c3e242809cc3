package function

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	// soonestPositionCheck and latestPositionCheck bound how soon a queued Function checks its
	// position again, although the queue requeues it when it gets a slot.
	soonestPositionCheck = 5 * time.Second
	latestPositionCheck  = time.Minute
	// registryDelay is how soon a registry that did not answer is asked again.
	registryDelay = 10 * time.Second
)

func queuedCondition(queueStatus buildqueue.QueueStatus) conditionUpdate {
	v := unknown(v1alpha2.ReasonBuildQueued, "Waiting for a build slot: position %d of %d, %d builds run",
		queueStatus.Position, queueStatus.Waiting, queueStatus.Running)
	if queueStatus.Share > 0 {
		v.message += fmt.Sprintf(". The namespace has %d of them, which is all that it may have at a time", queueStatus.Share)
	}
	v.requeueAfter = min(soonestPositionCheck+time.Duration(queueStatus.Position)*time.Second, latestPositionCheck)
	return v
}

func createdCondition(job string) conditionUpdate {
	return unknown(v1alpha2.ReasonJobCreated, "Job %s created", job)
}

func runningBuildCondition(job *batchv1.Job, trouble string) conditionUpdate {
	v := unknown(v1alpha2.ReasonJobRunning, "Job %s is still in progress", job.Name)
	if trouble != "" {
		v.message += ": " + trouble
	}
	return v
}

// builtCondition keeps the message of an image that was ready before.
func builtCondition(s *scope, message string) conditionUpdate {
	before := meta.FindStatusCondition(s.fn.Status.Conditions, v1alpha2.ConditionBuildReady)
	if message == "" && before != nil && before.Status == metav1.ConditionTrue {
		message = before.Message
	}
	if message == "" {
		message = "The image is there already, so nothing had to be built"
	}
	return conditionUpdate{status: metav1.ConditionTrue, reason: v1alpha2.ReasonJobFinished, message: message}
}

// failedBuildCondition reports why a build failed, where the rest of the log is, and when
// the next one comes.
func failedBuildCondition(job *batchv1.Job, result buildplan.Result, due, now time.Time) conditionUpdate {
	message := fmt.Sprintf("Job %s failed: %s", job.Name, strings.TrimSuffix(withLog(result), "."))
	if !strings.HasSuffix(message, "\n") {
		message += ". "
	}
	message += fmt.Sprintf("All of the log: kubectl logs --namespace %s job/%s. ", job.Namespace, job.Name)
	at := due.UTC().Format(time.DateTime) + " UTC"
	if result.Reason.Transient() {
		message += "It is tried again at " + at
	} else {
		message += fmt.Sprintf("It is built again as soon as the source, the dependencies, the Secrets of the build or the annotation %s change, "+
			"otherwise at %s", v1alpha2.AnnotationRebuild, at)
	}
	return conditionUpdate{
		status: metav1.ConditionFalse, reason: v1alpha2.ReasonJobFailed, message: message, requeueAfter: max(due.Sub(now), time.Second),
		stalls: !result.Reason.Transient(),
	}
}

// awaitsRegistryCondition is for as long as a registry has not answered. What it said before holds until then.
func awaitsRegistryCondition(s *scope) conditionUpdate {
	before := meta.FindStatusCondition(s.fn.Status.Conditions, v1alpha2.ConditionBuildReady)
	if before != nil && (before.Reason == v1alpha2.ReasonRegistryUnavailable || before.Reason == v1alpha2.ReasonRegistryInvalid) {
		return conditionUpdate{
			status: before.Status, reason: before.Reason, message: before.Message, stalls: before.Reason == v1alpha2.ReasonRegistryInvalid,
		}
	}
	return unknown(v1alpha2.ReasonBuildQueued, "Waiting for an answer of the registry %s", s.registry)
}

func invalidRegistryCondition(message string) conditionUpdate {
	return conditionUpdate{status: metav1.ConditionFalse, reason: v1alpha2.ReasonRegistryInvalid, message: message, stalls: true}
}

func unavailableRegistryCondition(err error) conditionUpdate {
	v := unknown(v1alpha2.ReasonRegistryUnavailable, "Cannot look for the image: %v. It is tried again every few seconds", err)
	v.requeueAfter = registryDelay
	return v
}

func noRegistryCondition(plan *buildplan.Plan) conditionUpdate {
	what := "installs the dependencies"
	if workload.IsCompiled(v1alpha2.Runtime(plan.Runtime)) {
		what = "compiles the source"
	}
	if plan.Git != nil {
		what = "fetches the source and " + what
	}
	return conditionUpdate{
		status: metav1.ConditionFalse, reason: v1alpha2.ReasonNoRegistry,
		message: fmt.Sprintf("No container registry is configured, so every pod %s when it starts: pods start slowly, do not start "+
			"while the sources of packages are away, and may differ from each other. Describe a registry in the Secret %s, in this "+
			"namespace or in that of the installation, or install Rouse with its own", what, v1alpha2.RegistrySecret),
	}
}
