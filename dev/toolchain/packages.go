package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes/language"
)

// wanted holds the dependencies of a Function.
type wanted struct {
	interpreter

	source   string // the folder of the manifest
	manifest string // its name in messages
	setup    []byte // the settings for private packages
}

// packages returns the folder with the installed dependencies, empty when there are none.
func (t *Toolchain) packages(ctx context.Context, w wanted, begun func(string)) (string, error) {
	name := w.Packages.Manifest
	manifest, err := os.ReadFile(filepath.Join(w.source, name)) //nolint:gosec // below the Function's source
	if errors.Is(err, fs.ErrNotExist) || err == nil && !dependencies.Needed(w.Language, manifest) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	files, err := w.files(name, manifest)
	if err != nil {
		return "", err
	}
	key := []string{w.made, string(w.setup)}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(w.source, file)) //nolint:gosec // below the Function's source
		if err != nil {
			return "", fmt.Errorf("read %s: %w", file, err)
		}
		key = append(key, file, string(content))
	}
	start := func() { begun("installing the dependencies in " + w.manifest) }
	return t.store.entry(ctx, "packages", w.Local.Program+"-"+keyOf(key...), start, func(dir, final string) error {
		for _, file := range files {
			if err := copyFile(filepath.Join(w.source, file), filepath.Join(dir, file)); err != nil {
				return err
			}
		}
		return t.install(ctx, w, dir, final)
	})
}

// files returns the files of the source that determine the installation.
func (w wanted) files(name string, manifest []byte) ([]string, error) {
	if w.Packages.Outward != nil && w.Packages.Outward.Match(manifest) {
		return filesBelow(w.source)
	}
	files := []string{name}
	for _, file := range w.Packages.Locks {
		if _, err := os.Stat(filepath.Join(w.source, file)); err == nil {
			files = append(files, file)
		}
	}
	return files, nil
}

func filesBelow(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the source: %w", err)
	}
	return files, nil
}

func (t *Toolchain) install(ctx context.Context, w wanted, dir, final string) error {
	manager, err := w.manager()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "rouse-install-")
	if err != nil {
		return fmt.Errorf("create a folder for the installation: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // it holds a log and settings
	setup := filepath.Join(work, w.Packages.Settings)
	if len(w.setup) > 0 {
		if err := os.WriteFile(setup, w.setup, 0o600); err != nil {
			return fmt.Errorf("write the settings for private packages: %w", err)
		}
	}
	err = dependencies.Install(ctx, dependencies.Request{
		Language: w.Language, Program: manager, Dir: dir, Manifest: w.manifest, Setup: setup, Work: work,
		Env: w.env, Site: dependencies.Machine(w.Language), Guard: t.o.Guard,
	}, t.o.Output)
	if err != nil || w.Local.Bytecode == nil {
		return err
	}
	return t.compile(ctx, w.interpreter, dir, final)
}

// compile writes bytecode, which speeds up each start. Packages may contain files for other versions of the language: it skips what does
// not compile.
func (t *Toolchain) compile(ctx context.Context, i interpreter, dir, final string) error {
	line := append([]string{i.path}, i.Local.Bytecode(dir, final)...)
	_ = dependencies.Run(ctx, dependencies.Command{Dir: dir, Env: i.env, Guard: t.o.Guard, Args: line}, t.o.Output)
	return ctx.Err()
}

// registrySecret is the Secret with the settings of package managers for private packages, as in a cluster.
const registrySecret = "serverless-package-registry-config"

func (l *launching) packageSetup() []byte {
	secret := l.secret(registrySecret)
	if secret == nil {
		return nil
	}
	return secret[l.interpreter.Packages.Settings]
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from) //nolint:gosec // of the Function's source
	if err != nil {
		return fmt.Errorf("copy the source: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("copy the source: %w", err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil { //nolint:gosec // below the cache
		return fmt.Errorf("copy the source: %w", err)
	}
	return nil
}

// whereIn returns the path of a file as the user wrote it.
func whereIn(file string, dir string) string {
	if dir = strings.Trim(dir, "/ "); dir == "" || dir == "." {
		return file + " in the root of the repository"
	}
	return file + " in the directory " + dir + " of the repository"
}

// binary returns the folder with the compiled source, which is cached by all of its inputs.
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

// placed replaces lines of the handler by those of the user's file, a manifest or a file next to it, where they are known.
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

// problem returns the error that the language finds in the handler before it is compiled.
func (l *launching) problem(from string) string {
	if l.interpreter.Check == nil {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(from, l.interpreter.Handler)) //nolint:gosec // below the Function's source
	if err != nil {
		return "" // check reports it
	}
	compiler := func(...string) string { return "" }
	return l.interpreter.Check(language.Source{File: l.interpreter.Handler, Text: string(text)}, compiler)
}

func (l *launching) compile(ctx context.Context, from, manifest, server, dir string, setup []byte) error {
	work, err := os.MkdirTemp("", "rouse-compile-")
	if err != nil {
		return fmt.Errorf("create a folder to compile in: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // it holds a copy and settings
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
