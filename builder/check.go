package builder

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes/language"
)

// handler is the file that the runtime loads.
type handler struct {
	name, text string
	manifest   []byte // the file of dependencies beside it
}

// check finds the handler in dir and makes sure that it compiles. The compilers get the handler's text and not its
// path, and it is read through an os.Root: no link or name leads to a file outside of dir, whose text a compiler
// would quote.
func (b *Builder) check(ctx context.Context, plan task, dir string) error {
	if plan.Git == nil && plan.Source == "" {
		return nil // the handler travels in the pod's environment
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the Function's directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	found, err := findHandler(root, plan)
	if err != nil || plan.language.Check == nil {
		return err
	}
	compiler := func(line ...string) string { return b.compiles(ctx, dir, found, line) }
	if message := plan.language.Check(language.Source{File: found.name, Text: found.text, Manifest: found.manifest}, compiler); message != "" {
		return fail(language.SourceInvalid, "%s does not compile: %s", found.name, message)
	}
	return nil
}

// findHandler looks for the same files in the same order as the runtime does.
func findHandler(root *os.Root, plan task) (handler, error) {
	manifest, _ := root.ReadFile(plan.language.Packages.Manifest) // what cannot be read is the package manager's to report
	candidates := plan.language.Handlers(manifest)
	for _, candidate := range candidates {
		name := candidate.File
		info, err := root.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, err := root.ReadFile(name)
		if err != nil {
			return handler{}, fail(language.SourceInvalid, "%s in %s cannot be read; replace it", name, whereIn(plan))
		}
		return handler{name: name, text: string(text), manifest: manifest}, nil
	}
	for _, candidate := range candidates {
		if candidate.NamedBy != "" && !filepath.IsLocal(candidate.File) {
			return handler{}, fail(language.SourceInvalid, "%s leads out of %s; name a file within it", candidate.NamedBy, whereIn(plan))
		}
	}
	return handler{}, fail(language.SourceInvalid, "there is no %s in %s; add it, or correct spec.source.gitRepository.baseDir",
		plan.language.Handler, whereIn(plan))
}

// whereIn names the directory that the user sees.
func whereIn(plan task) string {
	if plan.Git == nil {
		return "the Function's source"
	}
	if dir := buildplan.CleanDir(plan.Git.BaseDir); dir != "" {
		return "the directory " + dir + " of the repository"
	}
	return "the root of the repository"
}

// compiles is what a compiler says against the handler.
func (b *Builder) compiles(ctx context.Context, dir string, handler handler, compiler []string) string {
	checked := dependencies.Run(ctx, dependencies.Command{Dir: dir, Env: b.env, Args: compiler, Input: handler.text}, io.Discard)
	if checked.Err == nil {
		return ""
	}
	return syntaxError(checked.Output, handler.name)
}

// syntaxError cuts a compiler's output down to the place and the error.
func syntaxError(output, handler string) string {
	lines := strings.Split(strings.ReplaceAll(output, "[stdin]", handler), "\n")
	if end := slices.IndexFunc(lines, func(line string) bool { return errorLine.MatchString(line) }); end >= 0 {
		lines = lines[:end+1]
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	return strings.Join(lines, "\n")
}

var errorLine = regexp.MustCompile(`^[A-Z]\w*Error: `)
