package function

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
)

// Annotations of a build's Job. The next try is computed from them, so that it
// does not come sooner because the controller has restarted.
const (
	// annotationTarget is the image, which names all that it is made of.
	annotationTarget = "rouse.run/build-target"
	// annotationInputs is a hash of what else a build may fail of.
	annotationInputs = "rouse.run/build-inputs"
	// annotationFailures counts the builds that failed before this one.
	annotationFailures = "rouse.run/build-failures"
	// annotationCommit and annotationReference say, of a build from Git, which
	// commit it builds and what the commit was found by.
	annotationCommit    = "rouse.run/build-commit"
	annotationReference = "rouse.run/build-reference"
	// annotationProblem is a buildplan.Result of the controller's: why it ended the
	// build.
	annotationProblem = "rouse.run/build-problem"
)

const (
	firstRetry = 30 * time.Second
	lastRetry  = 10 * time.Minute
	// nonTransientRetry is for a failure that the user has to repair, in case
	// the controller does not see the repair.
	nonTransientRetry = time.Hour
)

// attempt is one try to build an image.
type attempt struct {
	target, inputs string
	// commit and reference are empty when the source is not from Git.
	commit, reference string
	failures          int
}

// attemptOf reads back what a Job was made for.
func attemptOf(job *batchv1.Job) attempt {
	failures, err := strconv.Atoi(job.Annotations[annotationFailures])
	if err != nil {
		failures = 0 // a user has changed the annotation
	}
	return attempt{
		target: job.Annotations[annotationTarget], inputs: job.Annotations[annotationInputs],
		commit: job.Annotations[annotationCommit], reference: job.Annotations[annotationReference], failures: failures,
	}
}

func (a attempt) annotations() map[string]string {
	annotations := map[string]string{
		annotationTarget: a.target, annotationInputs: a.inputs, annotationFailures: strconv.Itoa(a.failures),
	}
	if a.commit != "" {
		annotations[annotationCommit], annotations[annotationReference] = a.commit, a.reference
	}
	return annotations
}

// id is part of the name of the Job, so that no attempt is made twice.
func (a attempt) id() string {
	hash := sha256.New()
	write(hash, a.target, a.inputs, strconv.Itoa(a.failures))
	return hex.EncodeToString(hash.Sum(nil))[:10]
}

// after is the attempt that follows a failed one. It is due at once when
// something has changed that the failed one may have failed of.
func (a attempt) after(failed *batchv1.Job, result buildplan.Result) (next attempt, due time.Time) {
	last := attemptOf(failed)
	ended := endOf(failed)
	if last.inputs != a.inputs {
		return a, ended
	}
	a.failures = last.failures + 1
	if !result.Reason.Transient() {
		return a, ended.Add(nonTransientRetry)
	}
	delay := lastRetry
	if shift := last.failures; shift < 8 {
		delay = min(firstRetry<<shift, lastRetry)
	}
	return a, ended.Add(delay)
}

// endOf is when a Job has ended.
func endOf(job *batchv1.Job) time.Time {
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobFailed || condition.Type == batchv1.JobComplete {
			return condition.LastTransitionTime.Time
		}
	}
	return job.CreationTimestamp.Time
}

// history are the Jobs of a Function.
type history struct {
	// present is the newest Job for the wanted image.
	present *batchv1.Job
	// failed is the newest one of any image that has failed, kept for its log.
	failed *batchv1.Job
	// superseded build images that are no longer wanted.
	superseded []*batchv1.Job
	// ended is all that is over.
	ended []*batchv1.Job
}

func historyOf(jobs []batchv1.Job, wanted attempt) history {
	var found history
	slices.SortFunc(jobs, func(a, b batchv1.Job) int { return compareJobs(&a, &b, wanted) })
	for i := range jobs {
		job := &jobs[i]
		wanted := attemptOf(job).target == wanted.target
		switch {
		case !job.DeletionTimestamp.IsZero():
			continue
		case !buildqueue.Ended(job) && !wanted:
			found.superseded = append(found.superseded, job)
		case buildqueue.Ended(job):
			found.ended = append(found.ended, job)
		}
		if wanted && found.present == nil {
			found.present = job
		}
		if buildqueue.Failed(job) && found.failed == nil {
			found.failed = job
		}
	}
	return found
}

// compareJobs puts the newest first. Of two that were made in the same second,
// that is the one with the inputs of now.
func compareJobs(a, b *batchv1.Job, wanted attempt) int {
	present := func(job *batchv1.Job) int {
		if attemptOf(job).inputs == wanted.inputs {
			return 0
		}
		return 1
	}
	return cmp.Or(
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(present(a), present(b)),
		cmp.Compare(attemptOf(b).failures, attemptOf(a).failures),
		cmp.Compare(a.Name, b.Name),
	)
}

// fingerprint hashes what an attempt depends on beside the plan.
func fingerprint(parts ...string) string {
	hash := sha256.New()
	write(hash, parts...)
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// attempt is the first one for the plan as things are.
func (r *Reconciler) attempt(ctx context.Context, s *scope) (attempt, error) {
	needs, err := json.Marshal(resources.BuildRequirements(s.fn, s.settings.Build.Profile))
	if err != nil {
		return attempt{}, fmt.Errorf("encode the resources of the build: %w", err)
	}
	login, err := s.registry.DockerConfig(s.tenant)
	if err != nil {
		return attempt{}, err
	}
	parts := []string{
		string(needs), s.settings.Build.Builder, strconv.FormatInt(s.settings.Build.DeadlineSeconds, 10),
		strconv.FormatInt(s.plan.MaxSize, 10), string(login), string(r.ca),
	}
	for _, name := range buildSecrets(s.fn) {
		state, err := r.stateOfSecret(ctx, client.ObjectKey{Namespace: s.fn.Namespace, Name: name})
		if err != nil {
			return attempt{}, err
		}
		parts = append(parts, state)
	}
	first := attempt{target: s.plan.Target, inputs: fingerprint(parts...)}
	if s.plan.Git != nil {
		first.commit, first.reference = s.plan.Git.Commit, s.plan.Git.Reference
	}
	return first, nil
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

// imageTag names an image by all that it is made of. The user's wish to build
// again is part of it, because the registry has the image otherwise.
func imageTag(fn *v1alpha2.Function, plan buildplan.Plan) string {
	tag := buildplan.Tag(plan)
	if again := fn.Annotations[v1alpha2.AnnotationRebuild]; again != "" {
		tag += "-" + fingerprint(again)[:8]
	}
	return tag
}
