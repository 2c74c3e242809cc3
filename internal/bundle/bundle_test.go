package bundle

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/nodejs"
	"github.com/rouse-run/rouse/runtimes/python"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

// compiled returns the output of a program that loads the compiled handler and prints what main returns.
func compiled(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := write(t, files)
	require.NoError(t, Source(t.Context(), nodejs.Language(), dir))
	const program = `process.setSourceMapsEnabled(true);
import(require('node:fs').existsSync('handler.cjs') ? './handler.cjs' : './handler.mjs')
  .then((m) => (m.main ?? m.default.main)()).then(console.log, (error) => console.log(error.stack))`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.cjs"), []byte(program), 0o600))
	command := exec.CommandContext(t.Context(), "node", "run.cjs")
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func TestTypeScriptIsCompiledWithAllThatItImports(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"types": {map[string]string{"handler.ts": "export const main = (n: number = 2): string => `n ${n}`;"}, "n 2"},
		"syntax that cannot be erased": {map[string]string{
			"handler.ts": "enum Color { Red = 'red' }\nnamespace N { export const n = 1 }\nclass C { constructor(readonly c: Color) {} }\n" +
				"export const main = () => new C(Color.Red).c + N.n;",
		}, "red1"},
		"decorators": {map[string]string{
			"handler.ts":    "function twice(_: any, __: string, d: PropertyDescriptor) { const f = d.value; d.value = () => f() + f() }\nclass C { @twice m() { return 'a' } }\nexport const main = () => new C().m();",
			"tsconfig.json": `{"compilerOptions": {"experimentalDecorators": true}} // with a comment`,
		}, "aa"},
		"imports with and without an extension, of types too": {map[string]string{
			"handler.ts": "import { a } from './lib/a';\nimport { b } from './lib/b.ts';\nimport c from './c.js';\nimport { T } from './lib/a';\nexport const main = (t?: T) => a + b + c.c;",
			"lib/a.ts":   "export type T = string;\nexport const a = 'a';", "lib/b.ts": "export const b: string = 'b';", "c.js": "exports.c = 'c';",
		}, "abc"},
		"paths of a tsconfig": {map[string]string{
			"handler.ts": "import { a } from '@lib/a';\nexport const main = () => a;", "lib/a.ts": "export const a = 'mapped';",
			"tsconfig.json": `{"compilerOptions": {"paths": {"@lib/*": ["./lib/*"]}}}`,
		}, "mapped"},
		"top-level await": {map[string]string{"handler.mts": "const a = await Promise.resolve('awaited');\nexport const main = () => a;"}, "awaited"},
		"import.meta":     {map[string]string{"handler.ts": "export const main = () => typeof import.meta.url;"}, "string"},
		"CommonJS":        {map[string]string{"handler.cts": "const path = require('node:path');\nexports.main = (): string => path.basename('/a/b');"}, "b"},
		"a module by its package": {map[string]string{
			"src/index.ts": "export const main = () => 'by main';", "package.json": `{"type": "module", "main": "src/index.ts"}`,
		}, "by main"},
		"JSON": {map[string]string{"handler.ts": "import data from './data.json';\nexport const main = () => data.a;", "data.json": `{"a": "json"}`}, "json"},
		"a package": {map[string]string{
			"handler.ts":                 "import { left } from 'left';\nexport const main = () => left;",
			"node_modules/left/index.js": "exports.left = 'as installed';",
		}, "as installed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, compiled(t, tc.files))
		})
	}
}

func TestStackTracesNameTheFilesAndLinesThatWereWritten(t *testing.T) {
	t.Parallel()
	out := compiled(t, map[string]string{
		"handler.ts":   "import { check } from './lib/check.ts';\n\nexport async function main(): Promise<void> {\n  check();\n}\n",
		"lib/check.ts": "interface A { a: string }\n\nexport function check(a?: A) {\n  throw new Error('no a');\n}\n",
	})
	require.Contains(t, out, "Error: no a")
	require.Regexp(t, `at check \(.*lib/check\.ts:4:9\)`, out)
	require.Regexp(t, `handler\.ts:4:3`, out)
}

func TestASourceThatDoesNotCompileIsRefusedWithFileAndLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"syntax":              {map[string]string{"handler.ts": "export const main = () => {\n  const a = ;\n}"}, `handler.ts:2:13: Unexpected ";"`},
		"syntax of an import": {map[string]string{"handler.ts": "import './a.ts'", "a.ts": "let 1"}, `a.ts:1:5: Expected ";" but found "1"`},
		"a missing import":    {map[string]string{"handler.ts": "import './a.ts'"}, `handler.ts:1:8: Could not resolve "./a.ts"`},
		"a missing name":      {map[string]string{"handler.ts": "import { b } from './a.ts'; export const main = b", "a.ts": "export const a = 1"}, `No matching export in "a.ts" for import "b"`},
		"two handlers":        {map[string]string{"handler.ts": "", "handler.mts": ""}, "handler.ts and handler.mts are handlers: keep one"},
		"TSX":                 {map[string]string{"handler.tsx": ""}, "a handler cannot be TSX"},
		"a main that is away": {map[string]string{"package.json": `{"main": "src/a.ts"}`}, "main in package.json names src/a.ts, which is not in"},
		"a main outside":      {map[string]string{"package.json": `{"main": "../a.ts"}`}, "which is not in the Function's source"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Source(t.Context(), nodejs.Language(), write(t, tc.files))
			var failed *Error
			require.ErrorAs(t, err, &failed)
			require.Contains(t, err.Error(), tc.want)
		})
	}
}

func TestNoFileOutsideOfTheSourceGetsIntoTheScript(t *testing.T) {
	t.Parallel()
	outside := write(t, map[string]string{"secret.txt": "the secret", "secret.ts": "export const a = 'the secret'", ".npmrc": "the secret"})
	for name, change := range map[string]func(t *testing.T, dir string) string{
		"an absolute import": func(*testing.T, string) string { return filepath.Join(outside, "secret.txt") },
		"a relative import": func(t *testing.T, dir string) string {
			t.Helper()
			name, err := filepath.Rel(dir, filepath.Join(outside, "secret.ts"))
			require.NoError(t, err)
			return name
		},
		"a link": func(t *testing.T, dir string) string {
			t.Helper()
			require.NoError(t, os.Symlink(filepath.Join(outside, "secret.ts"), filepath.Join(dir, "linked.ts")))
			return "./linked.ts"
		},
		"a path of a tsconfig": func(t *testing.T, dir string) string {
			t.Helper()
			text := `{"compilerOptions": {"paths": {"secret": ["` + filepath.Join(outside, "secret.ts") + `"]}}}`
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tsconfig.json"), []byte(text), 0o600))
			return "secret"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{})
			source := "import * as a from '" + change(t, dir) + "';\nexport const main = () => a;"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "handler.ts"), []byte(source), 0o600))
			err := Source(t.Context(), nodejs.Language(), dir)
			require.ErrorContains(t, err, "leads out of the Function's directory")
			require.NotContains(t, err.Error(), "the secret")
			require.NoFileExists(t, filepath.Join(dir, "handler.cjs"))
		})
	}
}

func TestAConfigurationOutsideOfTheSourceIsNotQuoted(t *testing.T) {
	t.Parallel()
	outside := write(t, map[string]string{"private": "//registry.example.com/:_authToken=the secret"})
	err := Source(t.Context(), nodejs.Language(), write(t, map[string]string{
		"handler.ts": "export const main = 1 +;", "tsconfig.json": `{"extends": "` + filepath.Join(outside, "private") + `"}`,
	}))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "the secret")
}

func TestScriptsDependOnTheSourceAlone(t *testing.T) {
	t.Parallel()
	files := map[string]string{"handler.ts": "import { a } from './a';\nexport const main = () => a;", "a.ts": "export const a = 1;"}
	var outputs []string
	for range 2 {
		dir := write(t, files)
		require.NoError(t, Source(t.Context(), nodejs.Language(), dir))
		script, err := os.ReadFile(filepath.Join(dir, "handler.cjs"))
		require.NoError(t, err)
		mapped, err := os.ReadFile(filepath.Join(dir, "handler.cjs.map"))
		require.NoError(t, err)
		outputs = append(outputs, string(script)+string(mapped))
	}
	require.Equal(t, outputs[0], outputs[1])
}

func TestSourcesThatAreLoadedAsTheyAreStayUnchanged(t *testing.T) {
	t.Parallel()
	for _, files := range []map[string]string{{"handler.js": "a"}, {"handler.js": "a", "handler.ts": "b"}, {"handler.mjs": "a", "lib/a.ts": "b"}, {"package.json": `{"main": "a.js"}`, "a.js": ""}, {}} {
		dir := write(t, files)
		require.NoError(t, Source(t.Context(), nodejs.Language(), dir))
		require.NoFileExists(t, filepath.Join(dir, "handler.cjs"))
	}
	require.NoError(t, Source(t.Context(), python.Language(), write(t, map[string]string{"handler.ts": ""})))
}

func TestCompilingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Source(ctx, nodejs.Language(), write(t, map[string]string{"handler.ts": "export const main = 1"}))
	require.ErrorIs(t, err, context.Canceled)
}

func TestALinkOfTheSourceDoesNotLeadTheOutputElsewhere(t *testing.T) {
	t.Parallel()
	outside := write(t, map[string]string{"file": "kept"})
	dir := write(t, map[string]string{"handler.ts": "export const main = 1"})
	require.NoError(t, os.Symlink(filepath.Join(outside, "new"), filepath.Join(dir, "handler.cjs")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(dir, "handler.cjs.map")))
	require.NoError(t, Source(t.Context(), nodejs.Language(), dir))
	require.NoFileExists(t, filepath.Join(outside, "new"))
	kept, err := os.ReadFile(filepath.Join(outside, "file"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(kept))
}
