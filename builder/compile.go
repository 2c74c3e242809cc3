package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes/language"
)

// install installs the dependencies of dir's manifest into dir.
func (b *Builder) install(ctx context.Context, plan task, dir string, secrets secrets) error {
	packages := plan.language.Packages
	output := secrets.writer(b.deps.Output)
	defer output.flush()
	err := dependencies.Install(ctx, dependencies.Request{
		Language: plan.language, Program: packages.Program, Dir: dir, Manifest: manifestOf(plan),
		Setup: filepath.Join(b.o.Packages, packages.Settings),
		Work:  b.o.Work, Cache: b.o.Cache, Discard: b.o.Cache == "",
		Env: b.env, Site: dependencies.Image(),
	}, output)
	if failed := (&dependencies.Failure{}); errors.As(err, &failed) {
		return &reasonError{reason: failed.Reason, message: failed.Message, log: failed.Log}
	}
	return err
}

// manifestOf returns the name of the dependencies in messages.
func manifestOf(plan task) string {
	name := plan.language.Packages.Manifest
	if _, own := plan.Files[name]; plan.Git == nil && !own {
		return "spec.source.inline.dependencies"
	}
	return name + " in " + whereIn(plan)
}

// handler is the file that the runtime loads.
type handler struct {
	name, text string
	manifest   []byte // the dependency file next to it
}

// check finds the handler in dir and makes sure that it compiles. The compilers get the handler's text and not its
// path, and it is read through an os.Root: no link or name leads to a file outside of dir, whose text a compiler
// would quote.
func (b *Builder) check(ctx context.Context, plan task, dir string) error {
	if plan.Git == nil && plan.Source == "" && len(plan.Files) == 0 {
		return nil // the handler is in the pod's environment
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

// findHandler searches the same files in the same order as the runtime.
func findHandler(root *os.Root, plan task) (handler, error) {
	manifest, _ := root.ReadFile(plan.language.Packages.Manifest) // the package manager reports an unreadable file
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
	if plan.Git == nil {
		return handler{}, fail(language.SourceInvalid, "there is no %s in %s; add it", plan.language.Handler, whereIn(plan))
	}
	return handler{}, fail(language.SourceInvalid, "there is no %s in %s; add it, or correct spec.source.gitRepository.baseDir",
		plan.language.Handler, whereIn(plan))
}

// whereIn returns the name of the directory in messages.
func whereIn(plan task) string {
	if plan.Git == nil {
		return "the Function's source"
	}
	if dir := buildplan.CleanDir(plan.Git.BaseDir); dir != "" {
		return "the directory " + dir + " of the repository"
	}
	return "the root of the repository"
}

// compiles returns the compiler's error about the handler.
func (b *Builder) compiles(ctx context.Context, dir string, handler handler, compiler []string) string {
	checked := dependencies.Run(ctx, dependencies.Command{Dir: dir, Env: b.env, Args: compiler, Input: handler.text}, io.Discard)
	if checked.Err == nil {
		return ""
	}
	return syntaxError(checked.Output, handler.name)
}

// syntaxError reduces a compiler's output to the position and the error.
func syntaxError(output, handler string) string {
	lines := strings.Split(strings.ReplaceAll(output, "[stdin]", handler), "\n")
	if end := slices.IndexFunc(lines, func(line string) bool { return errorLine.MatchString(line) }); end >= 0 {
		lines = lines[:end+1]
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	return strings.Join(lines, "\n")
}

var errorLine = regexp.MustCompile(`^[A-Z]\w*Error: `)

const (
	maxShards  = 4
	shardBytes = 512 << 10
)

// compile writes bytecode for all of dir, with the paths that the files have in the image. Packages may have
// files for other versions of the language: what does not compile is left as it is.
//
// What a process compiled before shows in the bytecode of some files. So the files are dealt out to processes
// by their sizes alone, and not by how many cores there are or which of them is the first to be free.
func (b *Builder) compile(ctx context.Context, l *language.Language, dir string) error {
	empty := filepath.Join(b.o.Work, "empty") // some compilers search the working directory for modules
	if err := os.MkdirAll(empty, 0o700); err != nil {
		return fmt.Errorf("create a directory to compile in: %w", err)
	}
	shards, err := shardsOf(l, dir)
	if err != nil {
		return fmt.Errorf("list the sources to compile: %w", err)
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, files := range shards {
		line := l.Bytecode.Compile(dir, l.FunctionDir, files)
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			_ = dependencies.Run(ctx, dependencies.Command{Dir: empty, Env: b.env, Args: line}, b.deps.Output)
		})
	}
	running.Wait()
	return ctx.Err()
}

// source is a file or a package of the language.
type source struct {
	path  string
	bytes int64
}

// shardsOf distributes the Function's files and its packages over processes, the largest first.
func shardsOf(l *language.Language, dir string) ([][]string, error) {
	packages := filepath.Join(dir, l.Packages.Dir)
	sources, err := sourcesIn(dir, packages, l.Bytecode.Extension)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(packages); err == nil {
		below, err := sourcesIn(packages, "", l.Bytecode.Extension)
		if err != nil {
			return nil, err
		}
		sources = append(sources, below...)
	}
	slices.SortFunc(sources, func(a, b source) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.path, b.path)) })
	var total int64
	for _, each := range sources {
		total += each.bytes
	}
	shards := make([][]string, min(maxShards, 1+total/shardBytes))
	load := make([]int64, len(shards))
	for _, each := range sources {
		least := slices.Index(load, slices.Min(load))
		shards[least] = append(shards[least], each.path)
		load[least] += each.bytes
	}
	return slices.DeleteFunc(shards, func(files []string) bool { return len(files) == 0 }), nil
}

// sourcesIn returns the entries of dir, without one, that contain files with the extension.
func sourcesIn(dir, without, extension string) ([]source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var sources []source
	for _, entry := range entries {
		each := source{path: filepath.Join(dir, entry.Name())}
		if each.path == without {
			continue
		}
		err := filepath.WalkDir(each.path, func(file string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || filepath.Ext(file) != extension {
				return err
			}
			info, err := d.Info()
			if err == nil {
				each.bytes += max(info.Size(), 1)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if each.bytes > 0 {
			sources = append(sources, each)
		}
	}
	return sources, nil
}

// fillWithBinary writes only the binary into dir, and none of its inputs.
func (b *Builder) fillWithBinary(ctx context.Context, plan task, dir string, secrets secrets) error {
	project := filepath.Join(b.o.Work, "project")
	source := filepath.Join(project, language.SourceDir)
	if err := errors.Join(os.RemoveAll(project), os.MkdirAll(source, 0o700)); err != nil {
		return fmt.Errorf("create a folder to compile in: %w", err)
	}
	if err := b.phase("source", func() error { return b.place(plan, source) }); err != nil {
		return err
	}
	if err := b.phase("check", func() error { return b.check(ctx, plan, source) }); err != nil {
		return err
	}
	return b.phase("compile", func() error {
		return b.compileBinary(ctx, plan, project, filepath.Join(dir, plan.language.Compiled.Binary), secrets)
	})
}

func (b *Builder) compileBinary(ctx context.Context, plan task, project, binary string, secrets secrets) error {
	packages, server := plan.language.Packages, b.o.Server
	if server == "" {
		server = plan.language.Compiled.ServerDir
	}
	keep := b.o.Work
	if b.o.Cache != "" {
		keep = b.o.Cache
	}
	objects := filepath.Join(keep, "objects")
	if err := linkTree(filepath.Join(server, plan.language.Compiled.ObjectsDir), objects); err != nil {
		return err
	}
	output := secrets.writer(b.deps.Output)
	defer output.flush()
	err := dependencies.Compile(ctx, dependencies.Compilation{
		Request: dependencies.Request{
			Language: plan.language, Program: packages.Program, Dir: project, Manifest: manifestOf(plan),
			Setup: filepath.Join(b.o.Packages, packages.Settings), Work: b.o.Work, Env: b.env, Site: dependencies.Image(),
		},
		Modules: filepath.Join(keep, "modules"), Objects: objects, Server: server, Binary: binary,
	}, output)
	if failed := (&dependencies.Failure{}); errors.As(err, &failed) {
		return &reasonError{reason: failed.Reason, message: failed.Message, log: failed.Log}
	}
	return err
}

// linkTree creates a writable tree with links to a read-only one, which may be missing.
func linkTree(from, to string) error {
	err := filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		err = os.Symlink(file, filepath.Join(to, name)) //nolint:gosec // below the build's own directory
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("link the compiled objects of the runtime: %w", err)
	}
	return nil
}
