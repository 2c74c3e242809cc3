package builder

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/dependencies"
)

// compileScript compiles a source from its standard input as CommonJS. `node --check` accepts everything that might be
// an ES module.
const compileScript = `
const file = process.argv[1];
const source = require('node:fs').readFileSync(0, 'utf8').replace(/^#!.*/, '');
try {
  require('node:vm').compileFunction(source, ['exports', 'require', 'module', '__filename', '__dirname'], { filename: file });
} catch (error) {
  console.error(error.stack);
  process.exitCode = 3;
}`

// compilePython compiles a source from its standard input and writes nothing. Its own frames would only stand before the
// message.
const compilePython = `
import sys, traceback
try:
    compile(sys.stdin.buffer.read(), sys.argv[1], "exec", dont_inherit=True)
except (SyntaxError, ValueError) as error:
    sys.stderr.writelines(traceback.format_exception_only(type(error), error))
    sys.exit(3)`

// handler is the file that the runtime loads.
type handler struct {
	name, source string
	module       string // "type" of the package.json beside it
}

// check finds the handler in dir and makes sure that it compiles. The compilers get the handler's text and not its
// path, and it is read through an os.Root: no link or name leads to a file outside of dir, whose text a compiler
// would quote.
func (b *Builder) check(ctx context.Context, plan build.Plan, dir string) error {
	if plan.Git == nil && plan.Source == "" {
		return nil // the handler travels in the pod's environment
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the Function's directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	language := languageOf(plan)
	found, err := findHandler(root, language, plan)
	if err != nil {
		return err
	}
	compile := b.checkNode
	if language.python {
		compile = b.checkPython
	}
	if message := compile(ctx, dir, found); message != "" {
		return fail(build.SourceInvalid, "%s does not compile: %s", found.name, message)
	}
	return nil
}

// findHandler looks for the same files in the same order as the runtime does.
func findHandler(root *os.Root, language language, plan build.Plan) (handler, error) {
	names := []string{language.handler}
	var manifest packageJSON
	if !language.python {
		manifest = readPackage(root)
		names = append(names, "handler.mjs", "handler.cjs")
		if manifest.Main != "" {
			names = append(names, filepath.Clean(manifest.Main))
		}
	}
	for _, name := range names {
		info, err := root.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, err := root.ReadFile(name)
		if err != nil {
			return handler{}, fail(build.SourceInvalid, "%s in %s cannot be read; replace it", name, whereIn(plan))
		}
		return handler{name: name, source: string(text), module: manifest.Type}, nil
	}
	if main := filepath.Clean(manifest.Main); manifest.Main != "" && !filepath.IsLocal(main) {
		return handler{}, fail(build.SourceInvalid, "main in package.json leads out of %s; name a file within it", whereIn(plan))
	}
	return handler{}, fail(build.SourceInvalid, "there is no %s in %s; add it, or correct spec.source.gitRepository.baseDir",
		language.handler, whereIn(plan))
}

// whereIn names the directory that the user sees.
func whereIn(plan build.Plan) string {
	if plan.Git == nil {
		return "the Function's source"
	}
	if dir := build.CleanDir(plan.Git.BaseDir); dir != "" {
		return "the directory " + dir + " of the repository"
	}
	return "the root of the repository"
}

// packageJSON is what the builder wants to know from a package.json. What cannot be read is npm's to report.
type packageJSON struct {
	Main string `json:"main"`
	Type string `json:"type"`
}

func readPackage(root *os.Root) packageJSON {
	var parsed packageJSON
	if text, err := root.ReadFile("package.json"); err == nil {
		_ = json.Unmarshal(text, &parsed)
	}
	return parsed
}

// moduleWords are what CommonJS's parser calls the parts of an ES module.
var moduleWords = regexp.MustCompile(`(?i)\b(import|export|module|await)\b`)

func (b *Builder) checkNode(ctx context.Context, dir string, handler handler) string {
	module := handler.module
	switch filepath.Ext(handler.name) {
	case ".mjs":
		module = "module"
	case ".cjs":
		module = "commonjs"
	}
	if module != "module" {
		message := b.compiles(ctx, dir, handler, "node", "-e", compileScript, "--", handler.name)
		if message == "" || module == "commonjs" || !moduleWords.MatchString(lastLine(message)) {
			return message
		}
	}
	return b.compiles(ctx, dir, handler, "node", "--input-type=module", "--check")
}

func (b *Builder) checkPython(ctx context.Context, dir string, handler handler) string {
	return b.compiles(ctx, dir, handler, "python3", "-I", "-c", compilePython, handler.name)
}

// compiles is what a compiler says against the handler.
func (b *Builder) compiles(ctx context.Context, dir string, handler handler, compiler ...string) string {
	checked := dependencies.Run(ctx, dependencies.Command{Dir: dir, Env: b.env, Args: compiler, Input: handler.source}, io.Discard)
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

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
