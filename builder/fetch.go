package builder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/runtimes/language"
)

// Git gets a commit's directory from a repository.
type Git interface {
	// Fetch writes what BaseDir has at Commit into the directory into, which exists and is empty. ca has PEM
	// certificates that are trusted besides those of the system. The error is for the user of the Function.
	Fetch(ctx context.Context, source buildplan.Git, ca []byte, into string) error
}

// Fetch fills the source's directory, where the source comes from a repository.
func (b *Builder) Fetch(ctx context.Context) buildplan.Result {
	plan, err := b.begin()
	if err != nil {
		return resultOf(ctx, err)
	}
	if plan.Git == nil {
		return buildplan.Result{}
	}
	return resultOf(ctx, b.phase("fetch", func() error {
		if err := emptyOut(b.o.Source); err != nil {
			return err
		}
		err := b.deps.Git.Fetch(ctx, *plan.Git, b.ca, b.o.Source)
		switch {
		case err == nil:
			return nil
		case git.IsTransient(err):
			return fail(language.SourceUnreachable, "%s", err.Error())
		}
		return fail(language.SourceUnavailable, "%s", err.Error())
	}))
}

// place puts the source and the manifest of the dependencies into dir.
func (b *Builder) place(plan task, dir string) error {
	if plan.Git != nil {
		return copySource(b.o.Source, dir)
	}
	files := map[string]string{plan.language.Handler: plan.Source, plan.language.Packages.Manifest: plan.Dependencies}
	for name, content := range files {
		if strings.TrimSpace(content) == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil { //nolint:gosec // the runtime's user reads it
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// copySource leaves the source as it is for another try.
func copySource(from, to string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := os.CopyFS(to, root.FS()); err != nil {
		return fmt.Errorf("copy the source: %w", err)
	}
	return nil
}
