package toolchain

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/sourcefiles"
)

// folder returns a Function whose source are files.
func folder(runtime, source string, files map[string]string) manifest.Function {
	fn := inline(runtime, source)
	content := sourcefiles.Files{}
	for name, text := range files {
		content[name] = []byte(text)
	}
	fn.Files = &manifest.Files{Dir: "shop", Content: content}
	return fn
}

func TestFunctionsOfSeveralFilesRunInEachLanguage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fn   manifest.Function
		want string
	}{
		"JavaScript": {folder("nodejs22", "// the files", map[string]string{
			"handler.js": "exports.main = () => require('./lib/text.js') + require('sdk').getFunctionName()", "lib/text.js": "module.exports = 'text of '",
		}), "text of price"},
		"JavaScript with an inline handler": {folder("nodejs22", "exports.main = () => require('./lib/text.js')", map[string]string{
			"lib/text.js": "module.exports = 'inline'",
		}), "inline"},
		"modules by the package.json of the folder": {folder("nodejs22", "// the files", map[string]string{
			"handler.js": "import text from './lib/text.js';\nexport const main = () => text", "lib/text.js": "export default 'module'", "package.json": `{"type": "module"}`,
		}), "module"},
		"TypeScript": {folder("nodejs22", "// the files", map[string]string{
			"handler.ts":  "import { Text } from './lib/text';\nimport sdk from 'sdk';\nexport const main = (): string => Text.Typed + sdk.getFunctionName();",
			"lib/text.ts": "export enum Text { Typed = 'typed ' }", "package.json": `{"type": "module"}`,
		}), "typed price"},
		"Python": {folder("python312", "# the files", map[string]string{
			"handler.py": "from lib.text import text\ndef main(event, context):\n    return text\n", "lib/__init__.py": "", "lib/text.py": "text = 'package'\n",
		}), "package"},
		"Go": {folder("go126", "// the files", map[string]string{
			"handler.go": "package handler\n\nimport \"net/http\"\n\nfunc Handle(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(text())) }\n",
			"text.go":    "package handler\n\nfunc text() string { return \"compiled\" }\n",
		}), "compiled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, start(t, newFixture(t).launch(t, tc.fn)).get(t))
		})
	}
}

func TestAChangedFileIsAnotherVersion(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	files := func(text string) manifest.Function {
		return folder("nodejs22", "// the files", map[string]string{"handler.js": "exports.main = () => require('./a.js')", "a.js": "module.exports = '" + text + "'"})
	}
	first := w.launch(t, files("one"))
	require.Equal(t, first, w.launch(t, files("one")))
	second := w.launch(t, files("two"))
	require.NotEqual(t, first.Identity, second.Identity)
	require.Equal(t, "two", start(t, second).get(t))
}

func TestStackTracesOfTypeScriptNameItsLines(t *testing.T) {
	t.Parallel()
	launch := newFixture(t).launch(t, folder("nodejs22", "// the files", map[string]string{
		"handler.ts":   "import { check } from './lib/check';\ntype None = never;\nexport function main(): string {\n  try { check(); } catch (error) { return (error as Error).stack!; }\n  return '';\n}",
		"lib/check.ts": "interface A { a: string }\nexport const check = (a?: A) => {\n  throw new Error('no a');\n}",
	}))
	trace := start(t, launch).get(t)
	require.Regexp(t, `lib/check\.ts:3:9`, trace)
	require.Regexp(t, `handler\.ts:4:9`, trace)
}

func TestFilesThatDoNotCompileAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"syntax":       {map[string]string{"handler.ts": "export const main = (;"}, `SourceInvalid: shop/handler.ts:1:22: Unexpected ";"`},
		"two handlers": {map[string]string{"handler.ts": "", "handler.mts": ""}, "SourceInvalid: handler.ts and handler.mts are handlers: keep one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, newFixture(t).refused(t, folder("nodejs22", "// the files", tc.files)).Error(), tc.want)
		})
	}
}

func TestAWorkingTreeIsRunAndAnnounced(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	fn := fromGit("nodejs22", "https://example.org/shop.git", "main", nil)
	fn.Files = &manifest.Files{Dir: "functions/price", Repository: "/home/me/shop", Content: sourcefiles.Files{"handler.js": []byte("exports.main = () => 'tree'")}}
	require.Equal(t, "tree", start(t, w.launch(t, fn)).get(t))
	require.Contains(t, w.progress(), "the source is functions/price of the working tree in /home/me/shop, and not main of https://example.org/shop.git")
}

func TestHandlersThatExportSomethingElseSayWhat(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ source, want string }{
		"another name": {"exports.handler = () => 1; exports.init = () => 2; exports.n = 3", `it exports handler, init: name the function that takes calls main`},
		"a function":   {"module.exports = () => 1", `it exports a function without that name: write`},
		"a default":    {"export default function () { return 1 }", `it exports a function without that name: write`},
		"no function":  {"exports.main = 'text'", "its main is of type string"},
		"nothing":      {"const main = () => 1", "it exports nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			launch := newFixture(t).launch(t, inline("nodejs22", tc.source))
			out := failsToLoad(t, launch)
			require.Contains(t, out, `the handler does not export a function named "main"`)
			require.Contains(t, out, tc.want)
		})
	}
}

func TestFilesOfASourceAreWrittenBelowItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	require.NoError(t, os.Mkdir(inner, 0o700))
	require.Error(t, sourcefiles.Files{"../out": []byte("x")}.Write(inner))
	require.NoFileExists(t, filepath.Join(dir, "out"))
}

// failsToLoad returns the output of a Function that ends by itself.
func failsToLoad(t *testing.T, launch Launch) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), launch.Path, launch.Args...)
	command.Dir, command.Env = launch.Dir, slices.Concat(launch.Env, []string{"FUNC_PORT=0"})
	out, err := command.CombinedOutput()
	require.Error(t, err, "%s", out)
	return string(out)
}
