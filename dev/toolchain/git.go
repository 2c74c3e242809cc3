package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/runtimes/language"
)

// clone is the folder of a commit in the cache. What a branch or a tag stands for is asked once in the life of this
// process, and again when the annotation that asks for a fetch of the repository changes. Where the repository does not
// answer, the commit that was found last is used.
func (l *launching) clone(ctx context.Context, source *v1alpha2.GitRepositorySource) (string, error) {
	credentials, err := l.gitCredentials(source.Auth)
	if err != nil {
		return "", err
	}
	// The user of this machine chooses the repositories, which may well be on it.
	client, err := git.New(git.Options{Guard: dialguard.Guard{AllowLoopback: true}})
	if err != nil {
		return "", err
	}
	repository := git.Repository{URL: source.URL, Credentials: credentials}
	commit, err := l.commit(ctx, client, repository, strings.TrimSpace(source.Reference))
	if err != nil {
		return "", l.explain(err)
	}
	base := buildplan.CleanDir(source.BaseDir)
	fetching := l.step("waiting for the source of the repository")
	dir, err := l.t.store.entry(ctx, "git", keyOf(source.URL, commit, base), func() {
		fetching.begin(fmt.Sprintf("fetching commit %.10s of the repository", commit))
	}, func(dir, _ string) error {
		return l.explain(client.Fetch(ctx, repository, git.Commit{Hash: commit, Reference: source.Reference, BaseDir: base}, dir))
	})
	fetching.end(err)
	return dir, err
}

func (l *launching) commit(ctx context.Context, client *git.Client, repository git.Repository, reference string) (string, error) {
	if git.IsCommit(reference) {
		return reference, nil
	}
	question := keyOf(repository.URL, reference, l.fn.Annotations[v1alpha2.AnnotationCheckGit])
	if commit := l.t.resolvedTo(question); commit != "" {
		return commit, nil
	}
	file := filepath.Join(l.t.store.dir, "commits", keyOf(repository.URL, reference))
	asking := l.step("asking the repository what " + reference + " stands for")
	found, err := client.List(ctx, repository, reference)
	asking.end(err)
	if err != nil {
		last, readErr := os.ReadFile(file) //nolint:gosec // in our own cache
		if git.IsTransient(err) && ctx.Err() == nil && readErr == nil && git.IsCommit(string(last)) {
			l.reportProgress(fmt.Sprintf("the repository does not answer; %s is taken for the commit that it was last, %.10s (%v)", reference, last, err))
			return string(last), nil
		}
		return "", err
	}
	commit, err := found.Resolve(reference)
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(commit), 0o600)); err != nil {
		return "", fmt.Errorf("remember the commit: %w", err)
	}
	l.t.resolve(question, commit)
	return commit, nil
}

func (l *launching) explain(err error) error {
	known, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	reason := language.SourceUnavailable
	if git.IsTransient(known) {
		reason = language.SourceUnreachable
	}
	return fail(Reason(reason), "%s: %s", l.fn.At, known.Message)
}

func (l *launching) gitCredentials(auth *v1alpha2.RepositoryAuth) (git.Credentials, error) {
	if auth == nil {
		return git.Credentials{}, nil
	}
	for _, secret := range l.in.Secrets {
		if secret.Namespace != l.fn.Namespace || secret.Name != auth.SecretName {
			continue
		}
		found, err := git.ParseSecret(string(auth.Type), string(secret.Type), l.secret(secret.Name))
		if err != nil {
			return git.Credentials{}, fail(ReferenceMissing, "%s: %v; correct Secret %s, or spec.source.gitRepository.auth", l.fn.At, err, auth.SecretName)
		}
		return found, nil
	}
	return git.Credentials{}, l.missing("Secret", auth.SecretName, "spec.source.gitRepository.auth.secretName")
}
