package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes/language"
)

// binary is the folder with what is compiled of a source, made once for all that it is made of.
func (l *launching) binary(ctx context.Context, from, manifest string) (string, error) {
	if problem := l.problem(from); problem != "" {
		return "", fail(Reason(language.SourceInvalid), "%s: %s", l.fn.At, l.placed(problem))
	}
	server, err := l.server(ctx)
	if err != nil {
		return "", err
	}
	files, err := filesBelow(from)
	if err != nil {
		return "", err
	}
	setup := l.packageSetup()
	key := []string{l.interpreter.made, server, string(setup)}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(from, file)) //nolint:gosec // below the Function's source
		if err != nil {
			return "", fmt.Errorf("read %s: %w", file, err)
		}
		key = append(key, file, string(content))
	}
	compiling := l.step("waiting for the compiler")
	dir, err := l.t.store.entry(ctx, "binaries", l.interpreter.Local.Program+"-"+keyOf(key...), func() {
		compiling.begin("compiling the source")
	}, func(dir, _ string) error { return l.compile(ctx, from, manifest, server, dir, setup) })
	compiling.end(err)
	if failed, ok := errors.AsType[*dependencies.Failure](err); ok {
		return "", &Failure{Reason: Reason(failed.Reason), Message: l.placed(failed.Message), Log: failed.Log}
	}
	return dir, err
}

// placed names lines of the handler as the user wrote them, where that is known: in a manifest, or in a file beside it.
func (l *launching) placed(text string) string {
	at := l.fn.Source
	if at.Line == 0 {
		return text
	}
	place := regexp.MustCompile(`(^|\s)` + regexp.QuoteMeta(l.interpreter.Handler) + `:(\d+)(:\d+)?`)
	return place.ReplaceAllStringFunc(text, func(match string) string {
		parts := place.FindStringSubmatch(match)
		line, err := strconv.Atoi(parts[2])
		if err != nil {
			return match
		}
		column := parts[3]
		if at.Line > 1 {
			column = "" // the text is indented there
		}
		return parts[1] + at.File + ":" + strconv.Itoa(at.Line+line-1) + column
	})
}

// problem is what the language says against the handler before it is compiled.
func (l *launching) problem(from string) string {
	if l.interpreter.Check == nil {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(from, l.interpreter.Handler)) //nolint:gosec // below the Function's source
	if err != nil {
		return "" // it was looked for
	}
	compiler := func(...string) string { return "" }
	return l.interpreter.Check(language.Source{File: l.interpreter.Handler, Text: string(text)}, compiler)
}

func (l *launching) compile(ctx context.Context, from, manifest, server, dir string, setup []byte) error {
	work, err := os.MkdirTemp("", "rouse-compile-")
	if err != nil {
		return fmt.Errorf("make a folder to compile in: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // a copy, and settings
	source := filepath.Join(work, language.SourceDir)
	if err := errors.Join(os.MkdirAll(source, 0o700), os.CopyFS(source, os.DirFS(from))); err != nil {
		return fmt.Errorf("copy the source: %w", err)
	}
	settings := filepath.Join(work, l.interpreter.Packages.Settings)
	if len(setup) > 0 {
		if err := os.WriteFile(settings, setup, 0o600); err != nil {
			return fmt.Errorf("write the settings for private packages: %w", err)
		}
	}
	return dependencies.Compile(ctx, dependencies.Compilation{
		Request: dependencies.Request{
			Language: l.interpreter.Language, Program: l.interpreter.path, Dir: work, Manifest: manifest, Setup: settings,
			Env: l.interpreter.env, Site: dependencies.Machine(l.interpreter.Language), Guard: l.t.o.Guard,
		},
		Server: server, Binary: filepath.Join(dir, l.interpreter.Compiled.Binary),
	}, l.t.o.Output)
}
