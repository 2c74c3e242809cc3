package function

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	// podGrace is how long a Job may take to get a pod before its events are read for the reason.
	podGrace = 10 * time.Second
	// stuckGrace is how long a pod may fail to start before its slot goes to another build; unschedulableGrace is the
	// same for an unschedulable pod.
	stuckGrace         = 2 * time.Minute
	unschedulableGrace = resources.UnschedulableSeconds * time.Second
)

// jobsOf lists the builds of a Function.
func (r *Reconciler) jobsOf(ctx context.Context, fn *v1alpha2.Function) ([]batchv1.Job, error) {
	jobs := &batchv1.JobList{}
	err := r.client.List(ctx, jobs, client.InNamespace(fn.Namespace),
		client.MatchingFields{ownerIndex: string(fn.UID)}, client.MatchingLabels(resources.JobLabels(fn)))
	if err != nil {
		return nil, fmt.Errorf("list the builds of %q: %w", fn.Name, err)
	}
	return jobs.Items, nil
}

// createJob starts a build. It is idempotent.
func (r *Reconciler) createJob(ctx context.Context, s *scope, name string, wanted attempt) error {
	if err := r.applyInput(ctx, s, name, v1alpha2.ResourceJob); err != nil {
		return err
	}
	job, err := resources.Job(s.fn, s.settings, resources.Build{
		Name: name, Base: s.plan.Base, GitSecret: gitSecret(s.fn), Annotations: wanted.annotations(),
	})
	if err != nil {
		return fmt.Errorf("describe Job %q: %w", name, err)
	}
	if err := r.client.Apply(ctx, job, kube.FieldOwner); err != nil {
		return fmt.Errorf("create Job %q: %w", name, err)
	}
	return nil
}

// applyInput writes the Secret with the plan.
func (r *Reconciler) applyInput(ctx context.Context, s *scope, name, resource string) error {
	whole, err := r.withFiles(ctx, s)
	if err != nil {
		return err
	}
	plan, err := buildplan.EncodePlan(*whole)
	if err != nil {
		return err
	}
	if err := r.client.Apply(ctx, resources.InputSecret(s.fn, name, resource, plan, r.ca), kube.FieldOwner); err != nil {
		return fmt.Errorf("create Secret %q: %w", name, err)
	}
	return nil
}

// watchJob reports the progress of a build, and ends a Job that cannot start, to free its slot for others.
func (r *Reconciler) watchJob(ctx context.Context, s *scope, job *batchv1.Job) error {
	pods, err := r.podsOf(ctx, s, job)
	if err != nil {
		return err
	}
	if problem := endingProblem(job, pods); problem != "" {
		s.build = runningBuildCondition(job, problem)
		return nil
	}
	since, grace := startGrace(job, pods)
	age, trouble, wait := s.now.Sub(since), buildTrouble(pods), grace
	if len(pods) == 0 {
		wait = podGrace
		if age >= podGrace {
			wait = grace
			if trouble, err = r.whyNoPod(ctx, job); err != nil {
				return err
			}
		}
	}
	s.build = runningBuildCondition(job, trouble)
	if trouble == "" && len(pods) > 0 {
		return nil
	}
	if trouble == "" || age < grace {
		s.build.requeueAfter = max(wait-age, time.Second)
		return nil
	}
	problem, err := problemOf(trouble)
	if err != nil {
		return fmt.Errorf("encode the problem of Job %q: %w", job.Name, err)
	}
	ended := job.DeepCopy()
	metav1.SetMetaDataAnnotation(&ended.ObjectMeta, annotationProblem, problem)
	ended.Spec.ActiveDeadlineSeconds = new(int64(1))
	if err := r.client.Patch(ctx, ended, client.MergeFrom(job)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end Job %q: %w", job.Name, err)
	}
	return nil
}

// startGrace returns how long the pod of a build may take to start, and since when.
func startGrace(job *batchv1.Job, pods []corev1.Pod) (since time.Time, grace time.Duration) {
	since, grace = job.CreationTimestamp.Time, stuckGrace
	for i := range pods {
		switch scheduled := podCondition(&pods[i], corev1.PodScheduled); scheduled.Status {
		case corev1.ConditionTrue:
			since = scheduled.LastTransitionTime.Time
		case corev1.ConditionFalse:
			grace = unschedulableGrace
		default:
		}
	}
	return since, grace
}

// whyNoPod returns the Job controller's warning, such as a quota or Pod Security.
func (r *Reconciler) whyNoPod(ctx context.Context, job *batchv1.Job) (string, error) {
	events := &corev1.EventList{}
	err := r.live.List(ctx, events, client.InNamespace(job.Namespace), client.MatchingFields{"involvedObject.uid": string(job.UID)})
	if err != nil {
		return "", fmt.Errorf("list the events of Job %q: %w", job.Name, err)
	}
	for i := len(events.Items) - 1; i >= 0; i-- {
		if event := &events.Items[i]; event.Type == corev1.EventTypeWarning {
			return "it has no pod yet: " + event.Message, nil
		}
	}
	return "", nil
}

// podsOf returns the pods of a Job. It bypasses the cache when that lags behind the Job.
func (r *Reconciler) podsOf(ctx context.Context, s *scope, job *batchv1.Job) ([]corev1.Pod, error) {
	var found []corev1.Pod
	for i := range s.buildPods {
		if s.buildPods[i].Labels[batchv1.JobNameLabel] == job.Name {
			found = append(found, s.buildPods[i])
		}
	}
	settled := len(found) > 0
	for i := range found {
		settled = settled && found[i].Status.Phase != corev1.PodRunning && found[i].Status.Phase != corev1.PodPending
	}
	if settled || !buildqueue.Ended(job) {
		return found, nil
	}
	pods := &corev1.PodList{}
	if err := r.live.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, fmt.Errorf("list the pods of Job %q: %w", job.Name, err)
	}
	return pods.Items, nil
}

const reasonOOMKilled = "OOMKilled"

// resultOf returns the result of a Job that has ended, as its pod reports it.
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
		return buildplan.Result{Reason: language.Interrupted, Message: "The build exceeded its deadline. " +
			"Give it more with spec.resourceConfiguration.build, use fewer packages, or let builds take longer with --build-deadline"}
	case len(pods) > 0 && strings.Contains(pods[0].Status.Message, "EmptyDir volume"):
		return buildplan.Result{Reason: language.ImageTooLarge, Message: "The build wrote more than one of its volumes may hold. " +
			"Depend on less, or ask the operator for a larger --build-volume-size"}
	case len(pods) > 0 && pods[0].Status.Reason != "": // evicted, or its node is gone
		return buildplan.Result{Reason: language.Interrupted, Message: "The pod of the build was ended: " +
			strings.TrimSuffix(pods[0].Status.Reason+": "+pods[0].Status.Message, ": ")}
	default:
		return buildplan.Result{Reason: language.Interrupted, Message: "The pod of the build disappeared before it reported a result"}
	}
}

// deadlineExceeded reports whether a deadline ended the build: the pod's or the Job's.
func deadlineExceeded(job *batchv1.Job, pods []corev1.Pod) bool {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		if jobCondition(job, kind).Reason == batchv1.JobReasonDeadlineExceeded {
			return true
		}
	}
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Status.Reason == batchv1.JobReasonDeadlineExceeded })
}

// endingProblem returns why a Job is about to fail while Kubernetes deletes its pods, empty for any other Job.
func endingProblem(job *batchv1.Job, pods []corev1.Pod) string {
	if job.Annotations[annotationProblem] == "" && jobCondition(job, batchv1.JobFailureTarget).Type == "" {
		return ""
	}
	return resultOf(job, pods).Message
}

// resultOfPods returns the result that the containers of a build reported.
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

// resultOfContainer decodes the builder's termination message.
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
			"without a result; see its log", status.Name, ended.ExitCode, ended.Reason)}, true
	}
}

// withLog returns the message of a result followed by the end of the log.
func withLog(result buildplan.Result) string {
	log := strings.TrimSpace(result.Log)
	if log == "" {
		return result.Message
	}
	return strings.TrimSuffix(result.Message, ".") + ". The last lines of the log:\n" + log + "\n"
}

// buildTrouble returns why a build's pod does not run, empty when it does.
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

// problemOf encodes why the controller ends a build that cannot start.
func problemOf(trouble string) (string, error) {
	text, err := json.Marshal(buildplan.Result{
		Reason:  language.Interrupted,
		Message: "The pod of the build does not start: " + cmp.Or(trouble, "Kubernetes reports no reason"),
	})
	return string(text), err
}

// secretGrace is the minimum age at which an unused Secret is deleted: the cache may not show its Job yet.
const secretGrace = time.Minute

// deleteJobs ends builds and frees their slots.
func (r *Reconciler) deleteJobs(ctx context.Context, jobs ...*batchv1.Job) error {
	for _, job := range jobs {
		err := r.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete Job %q: %w", job.Name, err)
		}
	}
	return nil
}

// clearBuilds deletes Jobs and Secrets that no build needs any more. While a build runs or fails, the last failed Job
// is kept for its log; past is nil when all can be deleted.
func (r *Reconciler) clearBuilds(ctx context.Context, s *scope, past *history) error {
	jobs, err := r.jobsOf(ctx, s.fn)
	if err != nil {
		return err
	}
	running := map[string]bool{}
	for i := range jobs {
		job := &jobs[i]
		if past != nil {
			if !buildqueue.Ended(job) {
				running[job.Name] = true
				continue
			}
			if past.failed != nil && past.failed.UID == job.UID || past.present != nil && past.present.UID == job.UID {
				continue
			}
		}
		if err := r.deleteJobs(ctx, job); err != nil {
			return err
		}
	}
	return r.deleteSecrets(ctx, s, resources.JobLabels(s.fn), running)
}

// deleteSecrets deletes the Secrets with the labels, except those in use and those too young for the cache to show
// their user.
func (r *Reconciler) deleteSecrets(ctx context.Context, s *scope, labels client.MatchingLabels, used map[string]bool) error {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	owned := client.MatchingFields{ownerIndex: string(s.fn.UID)}
	if err := r.client.List(ctx, secrets, client.InNamespace(s.fn.Namespace), owned, labels); err != nil {
		return fmt.Errorf("list the Secrets of %q: %w", s.fn.Name, err)
	}
	var problems []error
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if used[secret.Name] || s.now.Sub(secret.CreationTimestamp.Time) < secretGrace {
			continue
		}
		if err := r.remove(ctx, secret); err != nil {
			problems = append(problems, fmt.Errorf("delete Secret %q: %w", secret.Name, err))
		}
	}
	return errors.Join(problems...)
}
