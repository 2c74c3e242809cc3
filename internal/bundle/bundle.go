package bundle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/rouse-run/rouse/runtimes/language"
)

// oldest is the oldest version of Node.js that runs Functions. Scripts for it run on all later ones, so that a Function
// behaves alike on all.
const oldest = "20.19"

// maxProblems bounds the problems in an Error.
const maxProblems = 5

// Error describes a source that does not compile.
type Error struct {
	// Problems are one line each: file, line, column and message.
	Problems []string
}

// Error returns the problems, one in a line.
func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// Entry returns the handler in dir that has to be compiled, empty if the runtime loads the source as it is. The error is
// an *Error if the source is to blame.
func Entry(l *language.Language, dir string) (string, error) {
	if l.Bundled == nil {
		return "", nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	has := func(name string) bool {
		info, err := root.Stat(name)
		return err == nil && info.Mode().IsRegular()
	}
	manifest, _ := root.ReadFile(l.Packages.Manifest) // the package manager reports an unreadable file
	entry, problem := l.Bundled.Entry(has, manifest)
	if problem != "" {
		return "", &Error{Problems: []string{problem}}
	}
	return entry, nil
}

// Source compiles the handler in dir if that is needed, and writes the script and its source map into dir.
func Source(ctx context.Context, l *language.Language, dir string) error {
	entry, err := Entry(l, dir)
	if entry == "" || err != nil {
		return err
	}
	outputs, err := compile(ctx, dir, entry, l.Bundled)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, output := range outputs {
		name := filepath.Base(output.Path)
		_ = root.RemoveAll(name) // a link of the source would lead the output elsewhere
		if err := root.WriteFile(name, output.Contents, 0o644); err != nil {
			return fmt.Errorf("write the compiled handler: %w", err)
		}
	}
	return nil
}

// compile returns a script, or a module if the source can only be one.
func compile(ctx context.Context, dir, entry string, names *language.Bundled) ([]api.OutputFile, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("find the source: %w", err)
	}
	script, err := run(ctx, options(resolved, entry, names.Script, api.FormatCommonJS))
	if err != nil {
		return nil, err
	}
	if !onlyModule(script) {
		return outcome(script)
	}
	module, err := run(ctx, options(resolved, entry, names.Module, api.FormatESModule))
	if err != nil {
		return nil, err
	}
	return outcome(module)
}

func options(dir, entry, output string, format api.Format) api.BuildOptions {
	return api.BuildOptions{
		AbsWorkingDir: dir, EntryPoints: []string{"./" + filepath.ToSlash(entry)}, Outfile: filepath.Join(dir, output),
		Bundle: true, Platform: api.PlatformNode, Format: format, Engines: []api.Engine{{Name: api.EngineNode, Version: oldest}},
		// The package manager installs packages, some of which cannot be bundled.
		Packages:  api.PackagesExternal,
		Sourcemap: api.SourceMapLinked, SourcesContent: api.SourcesContentExclude,
		Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsInline, LogLevel: api.LogLevelSilent,
		Plugins: []api.Plugin{confine(dir)},
	}
}

// run compiles until ctx ends.
func run(ctx context.Context, options api.BuildOptions) (api.BuildResult, error) {
	compiler, refused := api.Context(options)
	if refused != nil {
		return api.BuildResult{Errors: refused.Errors}, nil
	}
	defer compiler.Dispose()
	stop := context.AfterFunc(ctx, compiler.Cancel)
	defer stop()
	result := compiler.Rebuild()
	return result, ctx.Err()
}

// onlyModule reports whether a source uses what only modules have.
func onlyModule(result api.BuildResult) bool {
	for _, message := range result.Errors {
		if strings.HasPrefix(message.Text, "Top-level await is currently not supported") {
			return true
		}
	}
	for _, message := range result.Warnings {
		if message.ID == "empty-import-meta" {
			return true
		}
	}
	return false
}

func outcome(result api.BuildResult) ([]api.OutputFile, error) {
	if len(result.Errors) == 0 {
		return result.OutputFiles, nil
	}
	failed := &Error{}
	for i, message := range result.Errors {
		if i == maxProblems {
			failed.Problems = append(failed.Problems, fmt.Sprintf("and %d more", len(result.Errors)-maxProblems))
			break
		}
		failed.Problems = append(failed.Problems, lineOf(message))
	}
	return nil, failed
}

// lineOf leaves out the text of the line: a file that is no source may be quoted there.
func lineOf(message api.Message) string {
	if at := message.Location; at != nil {
		return fmt.Sprintf("%s:%d:%d: %s", at.File, at.Line, at.Column+1, message.Text)
	}
	return message.Text
}

// confine refuses files outside of dir, which imports and links may lead to.
func confine(dir string) api.Plugin {
	return api.Plugin{Name: "confine", Setup: func(build api.PluginBuild) {
		build.OnLoad(api.OnLoadOptions{Filter: ".*"}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			resolved, err := filepath.EvalSymlinks(args.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			if !within(dir, resolved) {
				return api.OnLoadResult{Errors: []api.Message{{Text: "an import leads out of the Function's directory: copy the file into it"}}}, nil
			}
			return api.OnLoadResult{}, nil
		})
	}}
}

func within(dir, path string) bool {
	name, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(name)
}
