package function

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	controllerbuild "github.com/rouse-run/rouse/controller/build"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// podGrace is how long a Job may take to get a pod before somebody is asked
	// why it has none.
	podGrace = 10 * time.Second
	// stuckGrace is how long a pod may be unable to start before the slot goes to
	// another build.
	stuckGrace = 2 * time.Minute
	// secretGrace is how long a Secret may wait for its Job to be seen.
	secretGrace = time.Minute
)

// jobsOf lists the builds of a Function.
func (r *Reconciler) jobsOf(ctx context.Context, fn *v1alpha2.Function) ([]batchv1.Job, error) {
	jobs := &batchv1.JobList{}
	if err := r.client.List(ctx, jobs, client.InNamespace(fn.Namespace), client.MatchingLabels(resources.JobLabels(fn))); err != nil {
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
	plan, err := build.EncodePlan(*s.plan)
	if err != nil {
		return err
	}
	if err := r.client.Apply(ctx, resources.InputSecret(s.fn, name, resource, plan, r.ca), kube.FieldOwner); err != nil {
		return fmt.Errorf("create Secret %q: %w", name, err)
	}
	return nil
}

// watchJob tells how a build is getting on, and ends one that cannot begin: its
// slot is for others.
func (r *Reconciler) watchJob(ctx context.Context, s *scope, job *batchv1.Job) error {
	pods, err := r.podsOf(ctx, s, job)
	if err != nil {
		return err
	}
	age := s.now.Sub(job.CreationTimestamp.Time)
	trouble, wait := buildTrouble(pods), stuckGrace
	if len(pods) == 0 {
		wait = podGrace
		if age >= podGrace {
			wait = stuckGrace
			if trouble, err = r.whyNoPod(ctx, job); err != nil {
				return err
			}
		}
	}
	s.build = runningBuildVerdict(job, trouble)
	if trouble == "" && len(pods) > 0 {
		return nil
	}
	if trouble == "" || age < stuckGrace {
		s.build.lookAgain = max(wait-age, time.Second)
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

// clearBuilds deletes what no build needs any more. While a build runs or fails
// the last failed Job stays, for its log; past is nil when all can go.
func (r *Reconciler) clearBuilds(ctx context.Context, s *scope, past *history) error {
	jobs, err := r.jobsOf(ctx, s.fn)
	if err != nil {
		return err
	}
	running := map[string]bool{}
	for i := range jobs {
		job := &jobs[i]
		if past != nil {
			if !controllerbuild.Ended(job) {
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

// deleteSecrets deletes those with the labels, except for the ones that are in
// use or so young that their user may not be seen yet.
func (r *Reconciler) deleteSecrets(ctx context.Context, s *scope, labels client.MatchingLabels, used map[string]bool) error {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.client.List(ctx, secrets, client.InNamespace(s.fn.Namespace), labels); err != nil {
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

// gitSecret is the Secret with the credentials of the repository, empty when
// there is none.
func gitSecret(fn *v1alpha2.Function) string {
	if repository := fn.Spec.Source.GitRepository; repository != nil && repository.Auth != nil {
		return repository.Auth.SecretName
	}
	return ""
}

// buildSecrets are the user's Secrets that builds use beside the registry's.
func buildSecrets(fn *v1alpha2.Function) []string {
	names := []string{v1alpha2.PackageRegistrySecret}
	if name := gitSecret(fn); name != "" {
		names = append(names, name)
	}
	return names
}

// stateOfSecret changes whenever a Secret does.
func (r *Reconciler) stateOfSecret(ctx context.Context, key client.ObjectKey) (string, error) {
	secret := metadataOf(kindSecret)
	err := r.client.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for Secret %q: %w", key, err)
	}
	return strconv.Quote(string(secret.UID)) + secret.ResourceVersion, nil
}
