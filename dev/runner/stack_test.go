package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
)

func TestStackTracesNameFilesOfTheUserAndNoCopies(t *testing.T) {
	t.Parallel()
	block, file := manifest.Position{File: "orders/f.yaml", Line: 10}, manifest.Position{File: "orders/handler.js", Line: 1}
	origin, err := filepath.Abs(block.File)
	require.NoError(t, err)
	git := func(fn *serverlessv1alpha2.Function) {
		fn.Spec.Source = serverlessv1alpha2.Source{GitRepository: &serverlessv1alpha2.GitRepositorySource{BaseDir: "/fn/a/"}}
	}
	for name, tc := range map[string]struct {
		source         manifest.Position
		debug          bool
		change         func(*serverlessv1alpha2.Function)
		printed, shown string
	}{
		"a block of a manifest": {
			source: block,
			printed: "TypeError: no\n    at inner (/state/a/function/handler.js:2:31)\n    at /cache/making/node-1/usr/src/app/bundles/main.js:27:3\n" +
				"    at AsyncLocalStorage.run (node:async_hooks:346:14)\n    at async file:///state/a/function/handler.js:3:1",
			shown: "TypeError: no\n    at inner (orders/f.yaml:11)\n    at async orders/f.yaml:12",
		},
		"a file that Kustomize put in": {
			source: file, printed: "    at inner (/state/a/function/handler.js:2:31)", shown: "    at inner (orders/handler.js:2:31)",
		},
		"a panic of Go": {
			source:  block,
			printed: "panic: no\n\ngoroutine 1 [running]:\nhandler.connect(...)\n\thandler@v0.0.0/handler.go:2\nexample.org/lib.Call()\n\texample.org/lib@v1.2.0/lib.go:7 +0x49",
			shown:   "panic: no\n\ngoroutine 1 [running]:\nhandler.connect(...)\n\torders/f.yaml:11\nexample.org/lib.Call()\n\texample.org/lib@v1.2.0/lib.go:7 +0x49",
		},
		"a text whose lines are nowhere": {
			printed: "    at inner (/state/a/function/handler.js:2:31)\n  File \"/state/a/function/handler.py\", line 2, in main",
			shown:   "    at inner (handler.js:2:31)\n  File \"handler.py\", line 2, in main",
		},
		"a Git repository": {
			change: git, printed: "    at inner (/state/a/function/lib/x.js:2:31)", shown: "    at inner (fn/a/lib/x.js:2:31)",
		},
		"a package": {
			source:  block,
			printed: "    at get (/cache/packages/node-1/node_modules/lodash/get.js:2:31)\n  File \"/cache/packages/python3-1/.local/lib/python3.11/site-packages/x.py\", line 2, in f",
			shown:   "    at get (node_modules/lodash/get.js:2:31)\n  File \"site-packages/x.py\", line 2, in f",
		},
		"an error with fields": {
			source: block, printed: "Error: no\n    at a (/cache/node/1/usr/src/app/bundles/main.js:27:3) {\n  code: 'E'\n}",
			shown: "Error: no\n    {\n  code: 'E'\n}",
		},
		"what does not load": {
			source:  block,
			printed: "handler did not load: handler.js:2\nconst = 1\n      ^\n\nSyntaxError: no",
			shown:   "handler did not load: orders/f.yaml:11\nconst = 1\n      ^\n\nSyntaxError: no",
		},
		"a missing module": {
			source:  block,
			printed: "Require stack:\n- /state/a/function/handler.js\n- /cache/node/1/usr/src/app/bundles/main.js",
			shown:   "Require stack:\n- handler.js",
		},
		"Python": {
			source: block,
			printed: "Traceback (most recent call last):\n  File \"/cache/python3/1/usr/src/app/function_server/legacy.py\", line 122, in _call\n" +
				"    return self._main()\n           ^^^^^^^^^^\n  File \"/state/a/function/handler.py\", line 5, in main\n    return e['a']\n           ~^^^^^\nKeyError: 'a'",
			shown: "Traceback (most recent call last):\n  File \"orders/f.yaml\", line 14, in main\n    return e['a']\n           ~^^^^^\nKeyError: 'a'",
		},
		"a debugger for Python": {
			source: block, debug: true,
			printed: "  File \"/state/a/function/handler.py\", line 1, in <module>\n    exec()\n  File \"" + origin + "\", line 12, in main\n    x",
			shown:   "  File \"orders/f.yaml\", line 12, in main\n    x",
		},
		"a debugger for Node.js": {
			source: block, debug: true, printed: "    at inner (" + origin + ":11:31)", shown: "    at inner (orders/f.yaml:11:31)",
		},
		"other words": {
			source: block, printed: "see handler.js:3, my/handler.js:4 and /cache\n    - at home", shown: "see handler.js:3, my/handler.js:4 and /cache\n    - at home",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			launch := toolchain.Launch{Dir: "/state/a/function", Cache: "/cache"}
			if tc.debug {
				launch.DebugAddress = "127.0.0.1:9229"
			}
			fn := function("x")
			if tc.change != nil {
				tc.change(fn.Function)
			}
			fn.Source = tc.source
			require.Equal(t, tc.shown, showAll(newStack(fn, launch), tc.printed))
		})
	}
}

func TestAFolderBehindALinkIsKnownByBothItsNames(t *testing.T) {
	t.Parallel()
	behind := filepath.Join(t.TempDir(), "behind")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Mkdir(behind, 0o700))
	require.NoError(t, os.Symlink(behind, link))
	resolved, err := filepath.EvalSymlinks(behind)
	require.NoError(t, err)
	for _, folder := range []string{link, resolved} {
		require.Equal(t, "    at orders/pricing.yaml:11", showAll(newStack(function("x"), toolchain.Launch{Dir: link}), "    at "+folder+"/handler.js:2:1"))
	}
}

// showAll is what is shown of several lines.
func showAll(s *stack, printed string) string {
	t := s.trace()
	var shown []string
	for line := range strings.SplitSeq(printed, "\n") {
		if text, keep := t.show(line); keep {
			shown = append(shown, text)
		}
	}
	return strings.Join(shown, "\n")
}
