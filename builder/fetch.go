package builder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/git"
)

// Git gets a commit's directory from a repository.
type Git interface {
	// Fetch writes what BaseDir has at Commit into the directory into, which exists and is empty. ca has PEM
	// certificates that are trusted besides those of the system. The error is for the user of the Function.
	Fetch(ctx context.Context, source build.Git, ca []byte, into string) error
}

// language is what differs between Node.js and Python.
type language struct {
	python       bool
	handler      string // the file of inline source
	manifest     string // the file of dependencies
	packages     string // the directory of installed dependencies
	packageSetup string // the file of the package manager in the Secret of private packages
}

func languageOf(plan build.Plan) language {
	if strings.HasPrefix(plan.Runtime, "python") {
		return language{
			python: true, handler: "handler.py", manifest: "requirements.txt", packages: build.PythonPackages, packageSetup: "pip.conf",
		}
	}
	return language{handler: "handler.js", manifest: "package.json", packages: "node_modules", packageSetup: ".npmrc"}
}

// fetch puts the source and the manifest of the dependencies into dir.
func (b *Builder) fetch(ctx context.Context, plan build.Plan, dir string) error {
	if plan.Git != nil {
		err := b.deps.Git.Fetch(ctx, *plan.Git, b.ca, dir)
		switch {
		case err == nil:
			return nil
		case git.IsTransient(err):
			return fail(build.SourceUnreachable, "%s", err.Error())
		}
		return fail(build.SourceUnavailable, "%s", err.Error())
	}
	language := languageOf(plan)
	files := map[string]string{language.handler: plan.Source, language.manifest: plan.Dependencies}
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
