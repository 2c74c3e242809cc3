package builder

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	commonJS    = "module.exports = { main() { return 1 } }"
	moduleJS    = "import fs from 'node:fs'\nexport const main = () => fs.existsSync('x')"
	scriptJS    = "if (process.env.X) return\nexports.main = () => 'export default'"
	brokenJS    = "module.exports = {\n  main() { return 1\n}"
	brokenESM   = "import fs from 'node:fs'\nexport function main() { return ( }"
	python      = "def main(event, context):\n    return 1\n"
	brokenPy    = "def main(event, context):\n    return (1\n"
	nullPy      = "x = '\x00'\n"
	packageESM  = `{"type": "module"}`
	packageCJS  = `{"type": "commonjs"}`
	packageMain = `{"main": "./src/index.js"}`
)

func TestASourceThatCompilesPassesAndOthersSayWhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		python bool
		files  map[string]string
		says   []string // empty: it compiles
	}{
		"CommonJS":                        {files: map[string]string{"handler.js": commonJS}},
		"an ES module":                    {files: map[string]string{"handler.js": moduleJS}},
		"an ES module by name":            {files: map[string]string{"handler.mjs": moduleJS}},
		"an ES module by package":         {files: map[string]string{"handler.js": moduleJS, "package.json": packageESM}},
		"what only CommonJS allows":       {files: map[string]string{"handler.js": scriptJS}},
		"the main of a package":           {files: map[string]string{"src/index.js": commonJS, "package.json": packageMain}},
		"a script with an interpreter":    {files: map[string]string{"handler.js": "#!/usr/bin/env node\n" + commonJS}},
		"Python":                          {python: true, files: map[string]string{"handler.py": python}},
		"a missing bracket":               {files: map[string]string{"handler.js": brokenJS}, says: []string{"handler.js:3", "SyntaxError: Unexpected end of input"}},
		"a missing bracket in a module":   {files: map[string]string{"handler.js": brokenESM}, says: []string{"handler.js:2", "return ( }", "SyntaxError: Unexpected token '}'"}},
		"a module that is said not to be": {files: map[string]string{"handler.js": moduleJS, "package.json": packageCJS}, says: []string{"import statement outside a module"}},
		"a script that is said to be one": {files: map[string]string{"handler.mjs": scriptJS}, says: []string{"Illegal return statement"}},
		"a missing parenthesis in Python": {
			python: true, files: map[string]string{"handler.py": brokenPy}, says: []string{`File "handler.py", line 2`, "SyntaxError: '(' was never closed"},
		},
		"what no Python source has": {python: true, files: map[string]string{"handler.py": nullPy}, says: []string{"null bytes"}},
		"no handler":                {files: map[string]string{"index.js": commonJS}, says: []string{"there is no handler.js in the directory fn of the repository", "baseDir"}},
		"no handler in Python":      {python: true, files: map[string]string{"main.py": python}, says: []string{"there is no handler.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := buildplan.Plan{Runtime: "nodejs22", Git: &buildplan.Git{BaseDir: "/fn/"}}
			if tc.python {
				plan.Runtime = "python312"
			}
			dir := t.TempDir()
			for file, content := range tc.files {
				write(t, filepath.Join(dir, file), content)
			}
			task, err := taskOf(plan)
			require.NoError(t, err)
			err = newJob(t, plan).builder().check(t.Context(), task, dir)
			if len(tc.says) == 0 {
				require.NoError(t, err)
				return
			}
			var failed *reasonError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, language.SourceInvalid, failed.reason)
			for _, part := range tc.says {
				require.Contains(t, failed.message, part)
			}
			require.NotContains(t, failed.message, "node:internal")
		})
	}
}
