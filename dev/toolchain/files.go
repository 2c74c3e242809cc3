package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/internal/bundle"
	"github.com/rouse-run/rouse/runtimes/language"
)

// files returns a folder in the cache with the files of the source, and the name of its dependencies file for messages.
func (l *launching) files(ctx context.Context) (dir, manifest string, err error) {
	files := l.fn.Files
	name := l.interpreter.Packages.Manifest
	manifest = filepath.Join(files.Dir, name)
	content := files.Content
	if inline := l.fn.Spec.Source.Inline; inline != nil {
		if _, own := content[name]; !own {
			manifest = "spec.source.inline.dependencies"
		}
		content = content.Over(l.interpreter.Language, inline.Source, inline.Dependencies)
	}
	if files.Repository != "" {
		l.reportOnce(fmt.Sprintf("the source is %s of the working tree in %s, and not %s of %s",
			files.Dir, files.Repository, l.fn.Spec.Source.GitRepository.Reference, l.fn.Spec.Source.GitRepository.URL))
	}
	dir, err = l.t.store.entry(ctx, "sources", keyOf(l.interpreter.Local.Program, content.Digest()), func() {}, func(dir, _ string) error {
		return content.Write(dir)
	})
	return dir, manifest, err
}

// bundleFormat is part of the key of compiled handlers. It changes when the compiler makes others of the same source.
const bundleFormat = "esbuild-0.28.2"

// bundled returns a folder in the cache with the source and its compiled handler, or the source's own folder if its
// handler is loaded as it is written.
func (l *launching) bundled(ctx context.Context, from string) (string, error) {
	entry, err := bundle.Entry(l.interpreter.Language, from)
	dir := from
	if err == nil && entry != "" {
		compiling := l.step("compiling the handler")
		dir, err = l.t.store.entry(ctx, "bundles", keyOf(from, bundleFormat), func() {}, func(dir, _ string) error {
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				return fmt.Errorf("copy the Function's source: %w", err)
			}
			return bundle.Source(ctx, l.interpreter.Language, dir)
		})
		compiling.end(err)
	}
	if failed, ok := errors.AsType[*bundle.Error](err); ok {
		return "", fail(Reason(language.SourceInvalid), "%s", l.inFolder(failed.Problems))
	}
	return dir, err
}

// inFolder returns problems with the paths of files as the user knows them.
func (l *launching) inFolder(problems []string) string {
	if l.fn.Files == nil {
		return strings.Join(problems, "\n")
	}
	shown := make([]string, 0, len(problems))
	for _, problem := range problems {
		if name, _, found := strings.Cut(problem, ":"); found && l.fn.Files.Content[name] != nil {
			problem = filepath.ToSlash(filepath.Join(l.fn.Files.Dir, problem))
		}
		shown = append(shown, problem)
	}
	return strings.Join(shown, "\n")
}
