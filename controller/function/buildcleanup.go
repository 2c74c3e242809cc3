package function

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// secretGrace is how long a Secret may wait for its Job to be seen.
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

// deleteSecrets deletes those with the labels, except for the ones that are in
// use or so young that their user may not be seen yet.
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
