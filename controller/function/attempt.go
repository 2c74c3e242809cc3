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
	// annotationTarget is the image, whose tag identifies all of its inputs.
	annotationTarget = "rouse.run/build-target"
	// annotationInputs is a hash of everything else that can make a build fail.
	annotationInputs = "rouse.run/build-inputs"
	// annotationFailures counts the failed builds before this one.
	annotationFailures = "rouse.run/build-failures"
	// annotationCommit and annotationReference record the commit that a build from Git builds, and the reference that
	// led to it.
	annotationCommit    = "rouse.run/build-commit"
	annotationReference = "rouse.run/build-reference"
	// annotationProblem is a buildplan.Result of the controller: why it ended the build.
	annotationProblem = "rouse.run/build-problem"
)

const (
	firstRetry = 30 * time.Second
	lastRetry  = 10 * time.Minute
	// nonTransientRetry applies to a failure that the user has to repair, in case the controller does not notice the
	// repair.
	nonTransientRetry = time.Hour
)

// attempt is one attempt to build an image.
type attempt struct {
	target, inputs string
	// commit and reference are empty when the source is not from Git.
	commit, reference string
	failures          int
}

// attemptOf reads the attempt back from a Job's annotations.
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

// id is part of the Job's name, so that no attempt is made twice.
func (a attempt) id() string {
	hash := sha256.New()
	write(hash, a.target, a.inputs, strconv.Itoa(a.failures))
	return hex.EncodeToString(hash.Sum(nil))[:10]
}

// after returns the attempt that follows a failed one. It is due at once when an input has changed that may have made
// the failed one fail.
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

// endOf returns the time at which a Job ended.
func endOf(job *batchv1.Job) time.Time {
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobFailed || condition.Type == batchv1.JobComplete {
			return condition.LastTransitionTime.Time
		}
	}
	return job.CreationTimestamp.Time
}

// history sorts the Jobs of a Function.
type history struct {
	// present is the newest Job for the wanted image.
	present *batchv1.Job
	// failed is the newest failed Job of any image, kept for its log.
	failed *batchv1.Job
	// superseded Jobs build images that are no longer wanted.
	superseded []*batchv1.Job
	// ended holds all Jobs that are over.
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

// compareJobs sorts the newest Job first. Of two Jobs made in the same second, the one with the current inputs comes
// first.
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

// fingerprint hashes the inputs of an attempt that the plan does not contain.
func fingerprint(parts ...string) string {
	hash := sha256.New()
	write(hash, parts...)
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// attempt returns the first attempt for the plan with the current inputs.
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

// gitSecret returns the name of the Secret with the repository's credentials, empty when there is none.
func gitSecret(fn *v1alpha2.Function) string {
	if repository := fn.Spec.Source.GitRepository; repository != nil && repository.Auth != nil {
		return repository.Auth.SecretName
	}
	return ""
}

// buildSecrets names the user's Secrets that builds use, other than the registry's.
func buildSecrets(fn *v1alpha2.Function) []string {
	names := []string{v1alpha2.PackageRegistrySecret}
	if name := gitSecret(fn); name != "" {
		names = append(names, name)
	}
	return names
}

// stateOfSecret returns a text that changes whenever the Secret does.
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

// imageTag identifies an image by all of its inputs, including the user's request to build again: without that the
// registry would already have the image.
func imageTag(fn *v1alpha2.Function, plan buildplan.Plan) string {
	tag := buildplan.Tag(plan)
	if again := fn.Annotations[v1alpha2.AnnotationRebuild]; again != "" {
		tag += "-" + fingerprint(again)[:8]
	}
	return tag
}
