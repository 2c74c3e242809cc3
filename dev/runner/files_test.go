package runner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/internal/sourcefiles"
)

func TestErrorsInTheFilesOfAFolderNameFileAndLine(t *testing.T) {
	t.Parallel()
	files := sourcefiles.Files{"handler.ts": nil, "handler.py": nil, "lib/check.ts": nil, "lib/check.py": nil}
	for name, tc := range map[string]struct{ dir, output, want, shown string }{
		"while it loads": {
			dir: "shop", output: "handler did not load: Error: no a\n    at check (lib/check.ts:4:9)\n    at Object.<anonymous> (handler.ts:9:1)",
			want: "shop/lib/check.ts:4: Error: no a (exit status 1)", shown: "    at Object.<anonymous> (shop/handler.ts:9:1)",
		},
		"in a folder without a name": {
			dir: ".", output: "Error: no a\n    at check (/copy/lib/check.ts:4:9)", want: "lib/check.ts:4: Error: no a (exit status 1)", shown: "    at check (lib/check.ts:4:9)",
		},
		"later": {
			dir: "shop", output: "Error: no a\n    at check (/copy/lib/check.ts:4:9)\n    at main (file:///copy/handler.ts:9:1)",
			want: "shop/lib/check.ts:4: Error: no a (exit status 1)", shown: "    at main (shop/handler.ts:9:1)",
		},
		"a syntax error": {
			dir: "shop", output: "handler did not load: lib/check.ts:4\nconst = 1;\n      ^\n\nSyntaxError: Unexpected token '='",
			want: "shop/lib/check.ts:4: SyntaxError: Unexpected token '=' (exit status 1)", shown: "handler did not load: shop/lib/check.ts:4",
		},
		"Python": {
			dir: "shop", output: "handler did not load:\n  File \"/copy/handler.py\", line 2, in <module>\n    import lib.check\n" +
				"  File \"/copy/lib/check.py\", line 7, in <module>\n    nothing\nNameError: name 'nothing' is not defined",
			want: "shop/lib/check.py:7: NameError: name 'nothing' is not defined (exit status 1)", shown: `  File "shop/handler.py", line 2, in <module>`,
		},
		"another program's file": {dir: "shop", output: "Error: see other.ts:4", want: "shop/f.yaml:1: Error: see other.ts:4 (exit status 1)", shown: "Error: see other.ts:4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := manifest.Function{
				Function: function("x").Function, At: manifest.Position{File: "shop/f.yaml", Line: 1},
				Files: &manifest.Files{Dir: tc.dir, Content: files},
			}
			shown := showAll(newStack(fn, toolchain.Launch{Dir: "/copy"}), tc.output)
			require.Contains(t, shown, tc.shown)
			c := crash{fn: fn, how: "exit status 1", lines: strings.Split(shown, "\n")}
			got, _, _ := strings.Cut(c.describe(), "\n")
			require.Equal(t, tc.want, got)
		})
	}
}
