package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
)

func TestCrashIsDescribedWithItsPosition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ output, want string }{
		"an error of Node.js while loading": {
			output: "noise\nhandler did not load: TypeError: x is not a function\n    at top (handler.js:2:3)\n    at Object.<anonymous> (handler.js:7:1)",
			want:   "f.yaml:11: TypeError: x is not a function (exit status 1)",
		},
		"a syntax error of Node.js": {
			output: "handler did not load: handler.js:4\nconst = 1;\n      ^\n\nSyntaxError: Unexpected token '='",
			want:   "f.yaml:13: SyntaxError: Unexpected token '=' (exit status 1)",
		},
		"a missing module of Node.js": {
			output: "handler did not load: Error: Cannot find module 'lodash'\n    at Object.<anonymous> (handler.mjs:1:7)",
			want:   "f.yaml:10: Error: Cannot find module 'lodash' (exit status 1)",
		},
		"a missing file of Node.js": {
			output: "handler did not load: Error: Cannot find module './lib/util'\n    at Object.<anonymous> (handler.js:1:7)",
			want: "f.yaml:10: Error: Cannot find module './lib/util' (exit status 1): the source is one file; " +
				"with rouse.run/files in spec.annotations it is the folder of the manifest",
		},
		"an error of Python": {
			output: "handler did not load:\n  File \"/copy/handler.py\", line 9, in <module>\n    top()\n" +
				"  File \"/copy/handler.py\", line 5, in top\n    nothing\nNameError: name 'nothing' is not defined",
			want: "f.yaml:14: NameError: name 'nothing' is not defined (exit status 1)",
		},
		"a panic of Go": {
			output: "panic: no address\n\ngoroutine 1 [running]:\nhandler.connect(...)\n\thandler@v0.0.0/handler.go:5\nhandler.init()\n\thandler@v0.0.0/handler.go:2 +0x1d",
			want:   "f.yaml:14: panic: no address (exit status 1)",
		},
		"a missing module of Python": {
			output: "handler did not load:\n  File \"handler.py\", line 1, in <module>\n    import pandsa\nModuleNotFoundError: No module named 'pandsa'",
			want:   "f.yaml:10: ModuleNotFoundError: No module named 'pandsa' (exit status 1)",
		},
		"an end without an error": {
			output: "handler did not load: the process ended with code 0 before the module was ready",
			want:   "f.yaml:1: handler did not load: the process ended with code 0 before the module was ready (exit status 1)",
		},
		"other words": {output: "listening\nout of luck", want: "f.yaml:1: out of luck (exit status 1)"},
		"no words":    {want: "f.yaml:1: the process ended by itself with exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := crash{
				fn: manifest.Function{
					Function: function("x").Function,
					At:       manifest.Position{File: "f.yaml", Line: 1}, Source: manifest.Position{File: "f.yaml", Line: 10},
				},
				how: "exit status 1",
			}
			if tc.output != "" {
				c.lines = strings.Split(showAll(newStack(c.fn, toolchain.Launch{Dir: "/copy"}), tc.output), "\n")
			}
			short, _, _ := strings.Cut(c.describe(), "\n")
			require.Equal(t, tc.want, short)
			c.fn.Source = manifest.Position{}
			require.True(t, strings.HasPrefix(c.describe(), "f.yaml:1: "), "a source that is in no file has no line")
		})
	}
}

func TestOnlyNamesOfThisMachineAreLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:8081": true, "localhost.": true, "shop.localhost:80": true,
		"127.0.0.1": true, "127.0.0.1:8081": true, "127.1.2.3": true, "[::1]:8081": true, "[::1]": true, "[::ffff:127.0.0.1]:1": true,
		"": false, "evil.example": false, "localhost.evil.example:8081": false, "127.0.0.1.evil.example": false,
		"10.0.0.1:8081": false, "0.0.0.0": false, "notlocalhost": false, "[::2]:80": false,
	} {
		require.Equal(t, want, isLoopback(host), host)
	}
}

func TestDesiredReplicas(t *testing.T) {
	t.Parallel()
	fixed := func(n *int32) func(*serverlessv1alpha2.Function) {
		return func(fn *serverlessv1alpha2.Function) { fn.Spec.Replicas = n }
	}
	for name, tc := range map[string]struct {
		fn        manifest.Function
		scaled    int
		exclusive bool
		want      int
	}{
		"one by default":                    {fn: function("x"), scaled: -1, want: 1},
		"the number in the spec":            {fn: function("x", fixed(ptr.To[int32](3))), scaled: 1, want: 3},
		"zero in the spec":                  {fn: function("x", fixed(ptr.To[int32](0))), scaled: 1, want: 0},
		"the minimum before it is scaled":   {fn: function("x", sleeps(2, 4)), scaled: -1, want: 2},
		"as scaled":                         {fn: function("x", sleeps(0, 4)), scaled: 3, want: 3},
		"not more than the most":            {fn: function("x", sleeps(0, 4)), scaled: 9, want: 4},
		"not less than the least":           {fn: function("x", sleeps(1, 4)), scaled: 0, want: 1},
		"one with a debugger":               {fn: function("x", sleeps(2, 4)), scaled: 3, exclusive: true, want: 1},
		"none with a debugger while asleep": {fn: function("x", sleeps(0, 4)), scaled: 0, exclusive: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, desiredReplicas(tc.fn, tc.scaled, tc.exclusive))
		})
	}
}

func TestFinishTimeFollowsTheTimeoutOfCalls(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": finish, "5": finish, "x": finish, "NaN": finish, "45.5": 46 * time.Second, "1e300": maxFinish, "601": maxFinish,
	} {
		fn := function("x", func(fn *serverlessv1alpha2.Function) {
			fn.Spec.Env = []corev1.EnvVar{{Name: "OTHER", Value: "500"}, {Name: "FUNC_TIMEOUT", Value: value}}
		})
		require.Equal(t, want, finishTime(fn, false), value)
		require.Equal(t, debuggedFinish, finishTime(fn, true))
	}
}

func TestProblemOfAFunctionIsFoundByItsFile(t *testing.T) {
	t.Parallel()
	at := manifest.Position{File: "a.yaml", Line: 1}
	for name, tc := range map[string]struct {
		problems []manifest.Problem
		want     string
	}{
		"none":                   {},
		"the Function's own":     {problems: []manifest.Problem{{Position: at, Message: "x"}, {Position: at, Object: "Function orders/pricing", Message: "y"}}, want: "a.yaml:1: Function orders/pricing: y"},
		"that of the whole file": {problems: []manifest.Problem{{Position: at, Message: "x"}}, want: "a.yaml:1: x"},
		"not a warning":          {problems: []manifest.Problem{{Position: at, Message: "x", Warning: true}}},
		"not another object's":   {problems: []manifest.Problem{{Position: at, Object: "Function orders/other", Message: "x"}}},
		"not another file's":     {problems: []manifest.Problem{{Position: manifest.Position{File: "b.yaml"}, Message: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, problemOf(pricing, at, tc.problems))
		})
	}
}

func TestStackTracesNameTheUsersFilesRatherThanCopies(t *testing.T) {
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
		"a text without known lines": {
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
		"a module that does not load": {
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

func TestLinkedFolderIsRecognizedByBothNames(t *testing.T) {
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

// showAll returns the shown form of several lines.
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
