package function

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/internal/git"
)

// findCommit completes a plan whose source comes from Git once the commit is known.
func (r *Reconciler) findCommit(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.fn)
	if s.plan == nil || s.plan.Git == nil {
		r.repositories.Forget(key)
		return nil
	}
	credentials, refused, err := r.credentials(ctx, s.fn)
	if err != nil {
		return err
	}
	if refused != "" {
		r.repositories.Forget(key)
		s.source = sourceProblem(refused)
		return r.stay(ctx, s)
	}
	found, known := r.repositories.Commit(key, gitpoll.Want{
		URL: s.plan.Git.URL, Reference: s.plan.Git.Reference, Credentials: credentials,
		Nonce: s.fn.Annotations[v1alpha2.AnnotationCheckGit],
	})
	switch {
	case !known:
		return r.stay(ctx, s)
	case found.Err != nil:
		s.source = sourceProblem(explainRepository(s.fn, found.Err))
		return r.stay(ctx, s)
	default:
		s.plan.Git.Commit = found.Commit
		return nil
	}
}

// stay keeps the newest known commit while the repository does not report the current one. A failed check, or a restart
// of the controller, changes neither what runs nor what is built.
func (r *Reconciler) stay(ctx context.Context, s *scope) error {
	jobs, err := r.jobsOf(ctx, s.fn)
	if err != nil {
		return err
	}
	s.plan.Git.Commit = lastCommit(s, jobs)
	return nil
}

// lastCommit returns the commit of the newest build, whether or not it succeeded, or else the running one; builds of
// earlier commits are deleted. It returns an empty string when the spec is not the one for which a commit was found.
func lastCommit(s *scope, jobs []batchv1.Job) string {
	tagOf := func(commit string) string {
		plan, source := *s.plan, *s.plan.Git
		source.Commit, plan.Git = commit, &source
		return imageTag(s.fn, plan)
	}
	reference := s.plan.Git.Reference
	for _, job := range newestFirst(jobs) {
		built := attemptOf(job)
		if built.commit != "" && built.reference == reference && strings.HasSuffix(built.target, ":"+tagOf(built.commit)) {
			return built.commit
		}
	}
	runs, built := s.fn.Status.GitRepository, s.fn.Status.Build
	if runs == nil || built == nil || runs.URL != s.plan.Git.URL || runs.Reference != reference || built.Tag != tagOf(runs.Commit) {
		return ""
	}
	return runs.Commit
}

// newestFirst returns the Jobs that are not being deleted.
func newestFirst(jobs []batchv1.Job) []*batchv1.Job {
	var kept []*batchv1.Job
	for i := range jobs {
		if jobs[i].DeletionTimestamp.IsZero() {
			kept = append(kept, &jobs[i])
		}
	}
	slices.SortFunc(kept, func(a, b *batchv1.Job) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return kept
}

// credentials reads the Secret for the repository without decrypting a key in it. refused explains to the user what is
// wrong with the Secret.
func (r *Reconciler) credentials(ctx context.Context, fn *v1alpha2.Function) (found git.Credentials, refused string, err error) {
	auth := fn.Spec.Source.GitRepository.Auth
	if auth == nil {
		return git.Credentials{}, "", nil
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: fn.Namespace, Name: auth.SecretName}
	err = r.live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return git.Credentials{}, fmt.Sprintf("%sthere is no Secret %s. Create it, or correct spec.source.gitRepository.auth.secretName",
			secretProblem, key), nil
	case err != nil:
		return git.Credentials{}, "", fmt.Errorf("read Secret %q: %w", key, err)
	}
	found, err = git.ParseSecret(string(auth.Type), string(secret.Type), secret.Data)
	if err != nil {
		return git.Credentials{}, explainSecret(fn, err), nil
	}
	return found, "", nil
}

const secretProblem = "Getting git authorization data failed: " //nolint:gosec // no credential

// explainSecret names the Secret to correct.
func explainSecret(fn *v1alpha2.Function, err error) string {
	return fmt.Sprintf("%s%v. Correct Secret %s/%s, or spec.source.gitRepository.auth",
		secretProblem, err, fn.Namespace, fn.Spec.Source.GitRepository.Auth.SecretName)
}

// explainRepository describes how to make the repository readable.
func explainRepository(fn *v1alpha2.Function, err error) string {
	repository := fn.Spec.Source.GitRepository
	where := repository.URL
	if parsed, parseErr := url.Parse(where); parseErr == nil {
		where = parsed.Redacted()
	}
	explained, _ := errors.AsType[*git.Error](err)
	switch {
	case git.IsAuthentication(err):
		message := fmt.Sprintf("Authentication required for Git repository: %s: %v", where, err)
		if repository.Auth != nil {
			message += fmt.Sprintf(" (%s in namespace %s)", repository.Auth.SecretName, fn.Namespace)
		}
		return message
	case explained != nil && explained.Kind == git.Secret && repository.Auth != nil:
		return explainSecret(fn, err)
	case explained != nil && explained.Kind == git.Certificate:
		return fmt.Sprintf("Git repository: %s source check failed: %v, the value caBundle of its chart", where, err)
	default:
		return fmt.Sprintf("Git repository: %s source check failed: %v", where, err)
	}
}

func sourceProblem(message string) conditionUpdate {
	return conditionUpdate{status: metav1.ConditionFalse, reason: v1alpha2.ReasonSourceUpdateFailed, message: message}
}

// updatedCondition reports a commit that is newer than the running one; it is zero when there is none.
func updatedCondition(s *scope) conditionUpdate {
	runs := s.fn.Status.GitRepository
	if s.plan == nil || s.plan.Git == nil || s.plan.Git.Commit == "" || runs == nil || runs.Commit == s.plan.Git.Commit {
		return conditionUpdate{}
	}
	return conditionUpdate{
		status: metav1.ConditionTrue, reason: v1alpha2.ReasonSourceUpdated,
		message: fmt.Sprintf("Function source updated: %s is at commit %s", s.plan.Git.Reference, s.plan.Git.Commit),
	}
}

// describeSource reports the running commit. The commit of an earlier version is not recorded.
func describeSource(s *scope) {
	status := &s.fn.Status
	status.GitRepository, status.Commit, status.BaseDir, status.Reference = nil, "", "", ""
	if s.rolledBack || s.plan == nil || s.plan.Git == nil {
		return
	}
	runs := s.plan.Git
	status.GitRepository = &v1alpha2.GitRepositoryStatus{
		URL: runs.URL, BaseDir: runs.BaseDir, Reference: runs.Reference, Commit: runs.Commit,
	}
	status.Commit, status.BaseDir, status.Reference = runs.Commit, runs.BaseDir, runs.Reference
}
