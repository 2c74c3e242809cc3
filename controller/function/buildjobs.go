package function

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// podGrace is how long a Job may take to get a pod before its events are read
	// for the reason.
	podGrace = 10 * time.Second
	// stuckGrace is how long a pod may be unable to start before the slot goes to
	// another build, and unschedulableGrace the same for an unschedulable one.
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

// createJob begins a build. Doing it twice changes nothing.
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
	plan, err := buildplan.EncodePlan(*s.plan)
	if err != nil {
		return err
	}
	if err := r.client.Apply(ctx, resources.InputSecret(s.fn, name, resource, plan, r.ca), kube.FieldOwner); err != nil {
		return fmt.Errorf("create Secret %q: %w", name, err)
	}
	return nil
}

// watchJob reports the progress of a build, and ends one that cannot begin: its
// slot is for others.
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

// startGrace is how long the pod of a build may take to start, and since when.
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

// whyNoPod finds what the Job controller says: a quota, or Pod Security.
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

// podsOf are the pods of a Job. The cache may lag behind the Job.
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
