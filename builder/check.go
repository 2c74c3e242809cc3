package builder

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/dependencies"
)

// compileScript compiles a file as CommonJS. `node --check` accepts everything that might be an ES module.
const compileScript = `
const file = process.argv[1];
const source = require('node:fs').readFileSync(file, 'utf8').replace(/^#!.*/, '');
try {
  require('node:vm').compileFunction(source, ['exports', 'require', 'module', '__filename', '__dirname'], { filename: file });
} catch (error) {
  console.error(error.stack);
  process.exitCode = 3;
}`

// compilePython compiles a file and writes nothing. Its own frames would only stand before the message.
const compilePython = `
import sys, traceback
try:
    with open(sys.argv[1], "rb") as file:
        compile(file.read(), sys.argv[1], "exec", dont_inherit=True)
except (SyntaxError, ValueError) as error:
    sys.stderr.writelines(traceback.format_exception_only(type(error), error))
    sys.exit(3)`

// check finds the handler in dir and makes sure that it compiles.
func (b *Builder) check(ctx context.Context, plan build.Plan, dir string) error {
	if plan.Git == nil && plan.Source == "" {
		return nil // the handler travels in the pod's environment
	}
	language := languageOf(plan)
	handler, err := findHandler(language, plan, dir)
	if err != nil {
		return err
	}
	compile := b.checkNode
	if language.python {
		compile = b.checkPython
	}
	if message := compile(ctx, dir, handler); message != "" {
		return fail(build.SourceInvalid, "%s does not compile: %s", handler, message)
	}
	return nil
}

// findHandler looks for the same files in the same order as the runtime does.
func findHandler(language language, plan build.Plan, dir string) (string, error) {
	names := []string{language.handler}
	if !language.python {
		names = append(names, "handler.mjs", "handler.cjs")
		if main := readPackage(dir).Main; main != "" {
			names = append(names, filepath.Clean(main))
		}
	}
	found := slices.IndexFunc(names, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
	if found < 0 {
		return "", fail(build.SourceInvalid, "there is no %s in %s; add it, or correct spec.source.gitRepository.baseDir",
			language.handler, whereIn(plan))
	}
	return names[found], nil
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

func readPackage(dir string) packageJSON {
	var parsed packageJSON
	if text, err := os.ReadFile(filepath.Join(dir, "package.json")); err == nil { //nolint:gosec // in the build's own directory
		_ = json.Unmarshal(text, &parsed)
	}
	return parsed
}

// moduleWords are what CommonJS's parser calls the parts of an ES module.
var moduleWords = regexp.MustCompile(`(?i)\b(import|export|module|await)\b`)

func (b *Builder) checkNode(ctx context.Context, dir, handler string) string {
	module := readPackage(dir).Type
	switch filepath.Ext(handler) {
	case ".mjs":
		module = "module"
	case ".cjs":
		module = "commonjs"
	}
	if module != "module" {
		checked := dependencies.Run(ctx, dependencies.Command{Dir: dir, Env: b.env, Args: []string{"node", "-e", compileScript, "--", handler}}, io.Discard)
		if checked.Err == nil {
			return ""
		}
		message := syntaxError(checked.Output, handler)
		if module == "commonjs" || !moduleWords.MatchString(lastLine(message)) {
			return message
		}
	}
	source, err := os.ReadFile(filepath.Join(dir, handler)) //nolint:gosec // in the build's own directory
	if err != nil {
		return err.Error()
	}
	checked := dependencies.Run(ctx, dependencies.Command{
		Dir: dir, Env: b.env, Args: []string{"node", "--input-type=module", "--check"}, Input: string(source),
	}, io.Discard)
	if checked.Err == nil {
		return ""
	}
	return syntaxError(checked.Output, handler)
}

func (b *Builder) checkPython(ctx context.Context, dir, handler string) string {
	checked := dependencies.Run(ctx, dependencies.Command{Dir: dir, Env: b.env, Args: []string{"python3", "-I", "-c", compilePython, handler}}, io.Discard)
	if checked.Err == nil {
		return ""
	}
	return syntaxError(checked.Output, handler)
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
