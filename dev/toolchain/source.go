package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/runtimes/language"
)

// keptSources is the number of earlier sources of a Function that are kept for processes that still run them.
const keptSources = 8

// source writes the Function's files into a folder of its own and links its packages there, and those of the server above it where the
// language searches for packages.
func (l *launching) source(ctx context.Context) (string, error) {
	from, manifest, err := l.fetched(ctx)
	if err != nil {
		return "", err
	}
	if from, err = l.bundled(ctx, from); err != nil {
		return "", err
	}
	if err := l.check(from); err != nil {
		return "", err
	}
	if l.interpreter.Compiled != nil {
		return l.binary(ctx, from, manifest)
	}
	installing := l.step("waiting for the dependencies in " + manifest)
	packages, err := l.t.packages(ctx, wanted{
		interpreter: l.interpreter, source: from, manifest: manifest, setup: l.packageSetup(),
	}, installing.begin)
	if installing.end(err); err != nil {
		return "", err
	}
	// The source links to the server, so the name includes its path.
	server, err := l.server(ctx)
	if err != nil {
		return "", err
	}
	sources := filepath.Join(l.folder, "source")
	dir := filepath.Join(sources, keyOf(from, packages, server, strconv.FormatBool(l.in.Debug), l.fn.Source.String()))
	function := filepath.Join(dir, "function")
	if _, err := os.Lstat(filepath.Join(dir, ".whole")); err == nil {
		now := time.Now()
		return function, os.Chtimes(dir, now, now)
	}
	if err := l.writeSource(from, packages, server, dir); err != nil {
		return "", err
	}
	return function, forget(sources, keptSources)
}

// writeSource creates the folder of a source. It replaces an incomplete one.
func (l *launching) writeSource(from, packages, server, dir string) error {
	function := filepath.Join(dir, "function")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700), os.CopyFS(function, os.DirFS(from))); err != nil {
		return fmt.Errorf("write the Function's source: %w", err)
	}
	if l.in.Debug && l.fn.Spec.Source.Inline != nil {
		if err := mapSource(filepath.Join(function, l.interpreter.Handler), l.fn.Source, l.interpreter.Local.Debugger.Map); err != nil {
			return err
		}
	}
	links := map[string]string{}
	if shared := l.interpreter.Local.ServerPackages; shared != "" {
		links[filepath.Join(dir, shared)] = filepath.Join(server, shared)
	}
	if packages != "" {
		links[filepath.Join(function, l.interpreter.Packages.Dir)] = filepath.Join(packages, l.interpreter.Packages.Dir)
	}
	for link, target := range links {
		if err := errors.Join(os.RemoveAll(link), os.Symlink(target, link)); err != nil {
			return fmt.Errorf("link the Function's packages: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".whole"), nil, 0o600); err != nil {
		return fmt.Errorf("write the Function's source: %w", err)
	}
	return nil
}

// fetched returns a folder in the cache with the original source, and the name of its dependencies file for messages.
func (l *launching) fetched(ctx context.Context) (dir, manifest string, err error) {
	name := l.interpreter.Packages.Manifest
	if l.fn.Files != nil {
		return l.files(ctx)
	}
	if repository := l.fn.Spec.Source.GitRepository; repository != nil {
		dir, err = l.clone(ctx, repository)
		return dir, whereIn(name, repository.BaseDir), err
	}
	inline := l.fn.Spec.Source.Inline
	if inline == nil {
		return "", "", fail(Reason(language.SourceInvalid), "%s: the Function has no source; set spec.source.inline or spec.source.gitRepository", l.fn.At)
	}
	files := map[string]string{l.interpreter.Handler: inline.Source, name: inline.Dependencies}
	key := keyOf(l.interpreter.Local.Program, inline.Source, inline.Dependencies)
	dir, err = l.t.store.entry(ctx, "sources", key, func() {}, func(dir, _ string) error {
		for name, content := range files {
			if strings.TrimSpace(content) == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				return fmt.Errorf("write the Function's source: %w", err)
			}
		}
		return nil
	})
	return dir, nameOf(l.fn.Dependencies), err
}

// check searches for the handler in the paths that the runtime searches.
func (l *launching) check(dir string) error {
	file := filepath.Join(dir, l.interpreter.Packages.Manifest)
	manifest, _ := os.ReadFile(file) //nolint:gosec // of the source; what cannot be read is the server's to report
	if slices.ContainsFunc(l.interpreter.Handlers(manifest), func(candidate language.Candidate) bool {
		_, err := os.Stat(filepath.Join(dir, filepath.Clean(string(filepath.Separator)+candidate.File)))
		return err == nil
	}) {
		return nil
	}
	if named := l.variable("MOD_NAME", "HANDLER_PATH", "HANDLER_MOD_NAME"); named {
		return nil // the server reports a missing handler
	}
	if l.fn.Files != nil {
		return fail(Reason(language.SourceInvalid), "%s: there is no %s in %s; add it", l.fn.At, l.interpreter.Handler, l.fn.Files.Dir)
	}
	if repository := l.fn.Spec.Source.GitRepository; repository != nil {
		return fail(Reason(language.SourceInvalid), "%s: there is no %s; add it, or correct spec.source.gitRepository.baseDir",
			l.fn.At, whereIn(l.interpreter.Handler, repository.BaseDir))
	}
	return fail(Reason(language.SourceInvalid), "%s: the Function's source is empty", l.fn.At)
}

func (l *launching) variable(names ...string) bool {
	for i := range l.fn.Spec.Env {
		if slices.Contains(names, l.fn.Spec.Env[i].Name) {
			return true
		}
	}
	return false
}

// forget removes all but the newest folders.
func forget(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list earlier sources: %w", err)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return changed(b).Compare(changed(a)) })
	for i, entry := range entries {
		if i < keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("remove an earlier source: %w", err)
		}
	}
	return nil
}

// clone returns the folder of a commit in the cache. It resolves a branch or a tag once per process, and again when the annotation that
// requests a fetch changes. When the repository does not respond, it uses the last known commit.
func (l *launching) clone(ctx context.Context, source *v1alpha2.GitRepositorySource) (string, error) {
	credentials, err := l.gitCredentials(source.Auth)
	if err != nil {
		return "", err
	}
	// The user chooses the repositories, which may be on this machine.
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
		return "", fmt.Errorf("store the commit: %w", err)
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
