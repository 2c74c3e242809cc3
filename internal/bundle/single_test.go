package bundle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/nodejs"
)

func TestAScriptHasAllThatItImportsAndNamesWhatItDoesNot(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"TypeScript":         {"handler.ts": "import { rate } from './lib/rate'\nexport const main = (): number => rate\n", "lib/rate.ts": "export const rate = 7\n"},
		"JavaScript":         {"handler.js": "const { rate } = require('./lib/rate')\nexports.main = () => rate\n", "lib/rate.js": "exports.rate = 7\n"},
		"a module":           {"handler.mjs": "import { rate } from './lib/rate.js'\nexport const main = () => rate\n", "lib/rate.js": "exports.rate = 7\n"},
		"main of a manifest": {"package.json": `{"main": "src/main.js"}`, "src/main.js": "exports.main = () => require('../lib/rate').rate\n", "lib/rate.js": "exports.rate = 7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files["prices.csv"], files["README.md"] = "tea,280\n", "# Prices\n"
			script, left, err := Single(t.Context(), nodejs.Language(), write(t, files))
			require.NoError(t, err)
			require.Contains(t, script, "7")
			require.NotContains(t, script, "sourceMappingURL")
			require.NotContains(t, left, "lib/rate.js")
			require.Subset(t, left, []string{"README.md", "prices.csv"})
		})
	}
}

func TestWhatOnlyAModuleHasIsNoScript(t *testing.T) {
	t.Parallel()
	script, _, err := Single(t.Context(), nodejs.Language(), write(t, map[string]string{"handler.mjs": "export const main = await Promise.resolve(() => 1)\n"}))
	require.NoError(t, err)
	require.Empty(t, script)
}

func TestAScriptOfNoHandlerIsRefused(t *testing.T) {
	t.Parallel()
	var refused *Error
	_, _, err := Single(t.Context(), nodejs.Language(), write(t, map[string]string{"main.js": ""}))
	require.ErrorAs(t, err, &refused)
	_, _, err = Single(t.Context(), nodejs.Language(), write(t, map[string]string{"handler.js": "const a = ;\n"}))
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Problems[0], "handler.js:1:11: ")
}
