package function

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/workload"
)

// buildImage finds the image that the plan describes, or has it built. Until there is one, the scope's code has no
// image. Only a digest that a build of this Function reported counts: a tag in the registry proves nothing.
func (r *Reconciler) buildImage(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.fn)
	if s.plan == nil || awaitsSource(s) {
		r.slots.Leave(key)
		if s.plan != nil {
			return nil
		}
		s.planned = true
		return r.clearBuilds(ctx, s, nil)
	}
	if s.code.Kyma { // its pods install for themselves
		r.slots.Leave(key)
		s.planned = true
		return errors.Join(r.clearBuilds(ctx, s, nil), r.prepareInPods(ctx, s))
	}
	found, err := r.registries.For(ctx, s.fn.Namespace)
	if invalid, ok := errors.AsType[*images.InvalidError](err); ok {
		r.slots.Leave(key)
		s.planned, s.build = true, invalidRegistryCondition(invalid.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the registry of %q: %w", key, err)
	}
	if found == nil {
		r.slots.Leave(key)
		s.planned, s.build = true, noRegistryCondition(s.plan)
		return r.prepareInPods(ctx, s)
	}
	if s.tenant, err = r.tenantOf(ctx, s.fn.Namespace); err != nil {
		return err
	}
	s.registry, s.planned = found, true
	if foreign, err := r.applyRegistrySecret(ctx, s); foreign != nil || err != nil {
		s.build = failureCondition(foreign)
		return err
	}
	begun, err := r.findOrBuild(ctx, s)
	if !begun {
		r.slots.Leave(key)
	}
	return err
}

// findOrBuild reports whether the Function holds a slot or waits for one.
func (r *Reconciler) findOrBuild(ctx context.Context, s *scope) (bool, error) {
	repository := s.tenant.Repository(s.fn.Name)
	tag := imageTag(s.fn, *s.plan)
	s.plan.Target, s.plan.Insecure = s.registry.Target(repository, tag), s.registry.Insecure

	known, answered, err := r.knownImage(s, repository, tag)
	if err != nil {
		s.build = unreachableRegistryCondition(s.registry, err)
		return false, nil
	}
	if known != nil {
		s.image = known
		return false, r.useImage(ctx, s, "")
	}
	wanted, err := r.attempt(ctx, s)
	if err != nil {
		return false, err
	}
	jobs, err := r.jobsOf(ctx, s.fn)
	if err != nil {
		return false, err
	}
	past := historyOf(jobs, wanted)
	if err := r.deleteJobs(ctx, past.superseded...); err != nil {
		return false, err
	}
	if past.present != nil {
		over, begun, err := r.followJob(ctx, s, past, &wanted)
		if over || err != nil {
			return begun, err
		}
	}
	if !answered {
		if answered, err = r.reach(s, repository, tag); err != nil {
			s.build = unreachableRegistryCondition(s.registry, err)
			return false, nil
		}
	}
	if !answered {
		s.build = awaitsRegistryCondition(s)
		return true, nil // it keeps its place in the queue, if it has one
	}
	return r.begin(ctx, s, wanted, past)
}

// followJob reads the newest Job for the wanted image. over is true when nothing is left to decide; otherwise wanted
// becomes the next attempt, which is due.
func (r *Reconciler) followJob(ctx context.Context, s *scope, past history, wanted *attempt) (over, begun bool, err error) {
	job := past.present
	pods, err := r.podsOf(ctx, s, job)
	if err != nil {
		return false, false, err
	}
	result, pushed := resultOfPods(pods) // the Job's own status follows a second or two later
	if !buildqueue.Ended(job) && (!pushed || result.Digest == "") {
		return true, true, r.watchJob(ctx, s, job)
	}
	result = resultOf(job, pods)
	if result.Digest != "" {
		s.image = &v1alpha2.BuildStatus{
			Tag: imageTag(s.fn, *s.plan), Image: s.registry.Image(s.tenant.Repository(s.fn.Name), result.Digest),
		}
		return true, false, r.useImage(ctx, s, fmt.Sprintf("Job %s finished", job.Name))
	}
	next, due := wanted.after(job, result)
	if s.now.Before(due) {
		s.build = failedBuildCondition(job, result, due, s.now)
		return true, false, r.clearBuilds(ctx, s, &past)
	}
	*wanted = next
	return false, false, nil
}

// begin creates the Job once the queue grants this Function a slot.
func (r *Reconciler) begin(ctx context.Context, s *scope, wanted attempt, past history) (bool, error) {
	key := client.ObjectKeyFromObject(s.fn)
	queueStatus, err := r.slots.Enter(ctx, key)
	if err != nil {
		return false, err
	}
	if !queueStatus.Granted {
		s.build = queuedCondition(queueStatus)
		return true, nil
	}
	name := resources.JobName(s.fn, wanted.id())
	if err := r.createJob(ctx, s, name, wanted); err != nil {
		failed := failureOf(explain(err, v1alpha2.ConditionBuildReady, v1alpha2.ReasonJobFailed,
			fmt.Sprintf("Job %s create failed: %v", name, err)))
		if failed == nil {
			return false, err
		}
		s.build = failureCondition(failed)
		s.build.requeueAfter = firstRetry
		return false, nil
	}
	r.slots.Began(key)
	s.build = createdCondition(name)
	return true, r.clearBuilds(ctx, s, &past)
}

// useImage runs the built image and deletes the objects of its build. The Job is kept until the status names the image:
// a reconciliation that reads an older status would otherwise build again.
func (r *Reconciler) useImage(ctx context.Context, s *scope, message string) error {
	s.code.Image = s.image.Image
	s.build = builtCondition(s, message)
	if recorded := s.fn.Status.Build; recorded == nil || *recorded != *s.image {
		return nil
	}
	return r.clearBuilds(ctx, s, nil)
}

const (
	// soonestPositionCheck and latestPositionCheck bound the delay until a queued Function checks its position again.
	// The queue also requeues it when it gets a slot.
	soonestPositionCheck = 5 * time.Second
	latestPositionCheck  = time.Minute
	// registryDelay is the delay before a registry that did not answer is queried again.
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
		message = "The image exists already, so no build was needed"
	}
	return conditionUpdate{status: metav1.ConditionTrue, reason: v1alpha2.ReasonJobFinished, message: message}
}

// failedBuildCondition reports why a build failed, where the full log is, and when the next attempt is due.
func failedBuildCondition(job *batchv1.Job, result buildplan.Result, due, now time.Time) conditionUpdate {
	message := fmt.Sprintf("Job %s failed: %s", job.Name, strings.TrimSuffix(withLog(result), "."))
	if !strings.HasSuffix(message, "\n") {
		message += ". "
	}
	message += fmt.Sprintf("Full log: kubectl logs --namespace %s job/%s. ", job.Namespace, job.Name)
	at := due.UTC().Format(time.DateTime) + " UTC"
	if result.Reason.Transient() {
		message += "It is retried at " + at
	} else {
		message += fmt.Sprintf("It is built again as soon as the source, the dependencies, the Secrets of the build or the annotation %s change, "+
			"otherwise at %s", v1alpha2.AnnotationRebuild, at)
	}
	return conditionUpdate{
		status: metav1.ConditionFalse, reason: v1alpha2.ReasonJobFailed, message: message, requeueAfter: max(due.Sub(now), time.Second),
		stalls: !result.Reason.Transient(),
	}
}

// awaitsRegistryCondition is the condition until a registry answers. The registry's last known state holds until then.
func awaitsRegistryCondition(s *scope) conditionUpdate {
	before := meta.FindStatusCondition(s.fn.Status.Conditions, v1alpha2.ConditionBuildReady)
	if before != nil && (before.Reason == v1alpha2.ReasonRegistryUnavailable || before.Reason == v1alpha2.ReasonRegistryInvalid) {
		return conditionUpdate{
			status: before.Status, reason: before.Reason, message: before.Message, stalls: before.Reason == v1alpha2.ReasonRegistryInvalid,
		}
	}
	return unknown(v1alpha2.ReasonBuildQueued, "Waiting for the registry %s to answer", s.registry)
}

func invalidRegistryCondition(message string) conditionUpdate {
	return conditionUpdate{status: metav1.ConditionFalse, reason: v1alpha2.ReasonRegistryInvalid, message: message, stalls: true}
}

func unavailableRegistryCondition(err error) conditionUpdate {
	v := unknown(v1alpha2.ReasonRegistryUnavailable, "Cannot look for the image: %v. The query is retried every few seconds", err)
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
			"while package registries are unavailable, and may differ from each other. Describe a registry in the Secret %s, in this "+
			"namespace or in that of the installation, or install Rouse with its own", what, v1alpha2.RegistrySecret),
	}
}
