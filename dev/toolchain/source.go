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

	"github.com/rouse-run/rouse/runtimes/language"
)

// keptSources is how many earlier sources of a Function stay for processes that still run them.
const keptSources = 8

// source puts the Function's own files into a folder of its own and links its packages to it, and those of the server
// above it where the language finds packages there.
func (l *launching) source(ctx context.Context) (string, error) {
	from, manifest, err := l.fetched(ctx)
	if err != nil {
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
	// The source links to the server, so its path is a part of the name.
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

// writeSource makes a source's folder. One that was left half made is replaced.
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

// fetched is a folder in the cache with the source as it was written, and what its user calls the file of dependencies.
func (l *launching) fetched(ctx context.Context) (dir, manifest string, err error) {
	name := l.interpreter.Packages.Manifest
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
	return dir, "spec.source.inline.dependencies", err
}

// check finds the handler under the paths where the runtime searches for it.
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
		return nil // the server reports what it does not find
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

// forget removes all but the latest folders.
func forget(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look at earlier sources: %w", err)
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
