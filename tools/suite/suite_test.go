package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// repository writes files into a new folder.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("MAKEFLAGS", "") // of the make that runs this test
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func requireContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

const makefile = `
good: ; @echo "good has run"
bad: ; @printf -- '--- FAIL: TestA (0.00s)\nFAIL\tgithub.com/rouse-run/rouse/charts\t0.1s\n'; exit 3
slow: ; @setsid sleep 300 & echo $$! >child; wait
`

func TestAFailingTierIsListedAndTheNextStillRuns(t *testing.T) {
	root := repository(t, map[string]string{"Makefile": makefile, "go.mod": ""})
	for _, stages := range [][]string{{"bad good"}, {"bad", "good"}, {"bad | good"}} {
		var out bytes.Buffer
		if code := run(t.Context(), append([]string{"-C", root, "tiers"}, stages...), &out); code != 1 {
			t.Errorf("%q: the exit code is %d, not 1", stages, code)
		}
		requireContains(t, out.String(), "== good: passed", "== bad: FAILED", "charts: TestA\n", "again: make test-unit PACKAGES=./charts RUN='^(TestA)$$'")
		_, table, _ := strings.Cut(out.String(), "\ntier")
		if fields := strings.Fields(table); !slices.Contains(fields, failed) || !slices.Contains(fields, passed) {
			t.Errorf("%q: the table lacks a result:\n%s", stages, out.String())
		}
	}
}

func TestTiersThatPassExitWithZero(t *testing.T) {
	root := repository(t, map[string]string{"Makefile": makefile})
	var out bytes.Buffer
	if code := run(t.Context(), []string{"-C", root, "tiers", "good"}, &out); code != 0 {
		t.Errorf("the exit code is %d:\n%s", code, out.String())
	}
	requireContains(t, out.String(), "good has run\n")
}

func TestAnInterruptedRunStopsItsProcessesAndStartsNoOther(t *testing.T) {
	root := repository(t, map[string]string{"Makefile": makefile})
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"-C", root, "tiers", "slow good"}, &out) }()
	child := 0
	for deadline := time.Now().Add(time.Minute); child == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		child = number(filepath.Join(root, "child"))
	}
	cancel()
	if got := <-code; got != 1 {
		t.Errorf("the exit code is %d, not 1", got)
	}
	requireContains(t, out.String(), "interrupted")
	if strings.Contains(out.String(), "== good: started") {
		t.Errorf("a tier was started after the interrupt:\n%s", out.String())
	}
	for deadline := time.Now().Add(time.Minute); child > 0 && syscall.Kill(child, 0) == nil && !zombie(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is left behind", child)
		}
	}
}

func TestFailuresContainTheCommandThatRepeatsThem(t *testing.T) {
	root := repository(t, map[string]string{
		"go.mod": "", "tools/supply/go.mod": "", "e2e/features/a_test.go": "//go:build e2e\n\npackage features\n", "gateway/a_test.go": "package gateway\n",
	})
	for name, c := range map[string]struct{ tier, output, what, again string }{
		"tests of a package": {
			"test-unit", "--- FAIL: TestA (1s)\n    --- FAIL: TestA/sub (1s)\n--- FAIL: TestB (2s)\nFAIL\tgithub.com/rouse-run/rouse/gateway\t3s\n",
			"gateway: TestA TestB", "make test-unit PACKAGES=./gateway RUN='^(TestA|TestB)$$'",
		},
		"a package that does not compile": {"test-unit", "FAIL\tgithub.com/rouse-run/rouse/gateway [build failed]\n", "gateway", "make test-unit PACKAGES=./gateway"},
		"a test that hangs": {
			"test-unit", "panic: test timed out after 10m0s\n\trunning tests:\n\t\tTestA (9m0s)\nFAIL\tgithub.com/rouse-run/rouse/gateway\t600s\n",
			"gateway: TestA", "make test-unit PACKAGES=./gateway RUN='^(TestA)$$'",
		},
		"another module": {"test-unit", "--- FAIL: TestA (1s)\nFAIL\tgithub.com/rouse-run/rouse/tools/supply/licenses\t3s\n", "tools/supply/licenses: TestA", "go test -C tools/supply ./licenses -run '^(TestA)$'"},
		"a feature":      {"test-e2e", "--- FAIL: TestA (1s)\nFAIL\tgithub.com/rouse-run/rouse/e2e/features\t3s\n", "e2e/features: TestA", "make test-e2e PACKAGES=./e2e/features RUN='^(TestA)$$'"},
		"a runtime":      {"test-runtimes", "FAILED tests/test_a.py::test_b - Error\n== runtimes/python FAILED after 3 s\n", "runtimes/python, tests/test_a.py::test_b", "make test-runtimes RUNTIMES=python"},
		"anything else":  {"verify", "files are stale\n", "verify", "make verify"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failuresOf(c.tier, c.output, root)
			if want := []failure{{c.what, c.again}}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestASummaryRepeatsWhatFailedAssertionsSay(t *testing.T) {
	const output = "=== RUN   TestA\n    a_test.go:7: \n        \tError Trace:\ta.go:7\n        \t            \tb.go:9\n" +
		"        \tError:      \tReceived unexpected error:\n        \t            \tno pod\n" +
		"        \tTest:       \tTestA\n        \tMessages:   \tin time\n--- a dump\n" +
		"        \tError:      \tNot equal\n        \tTest:       \tTestB/sub\n"
	if got, want := reasonsOf(output), []string{"TestA: Received unexpected error: no pod in time", "TestB/sub: Not equal"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChangesAreCheckedWhereTheyAreAndWhereTheyAreImported(t *testing.T) {
	packages := []*pkg{
		{ImportPath: "m/a", folder: "a", GoFiles: []string{"a.go"}, EmbedFiles: []string{"files/x.sh"}, TestGoFiles: []string{"a_test.go"}},
		{ImportPath: "m/b", folder: "b", Imports: []string{"m/a"}},
		{ImportPath: "m/c", folder: "c", Imports: []string{"m/b"}, TestGoFiles: []string{"c_test.go"}},
		{ImportPath: "m/d", folder: "d", XTestGoFiles: []string{"d_test.go"}, XTestImports: []string{"m/c"}, testReads: []string{"samples/orders"}},
	}
	for file, want := range map[string]scope{
		"a/a.go":                {[]string{"a"}, []string{"a", "c", "d"}},
		"a/a_test.go":           {[]string{"a"}, []string{"a"}},
		"a/files/x.sh":          {nil, []string{"a", "c", "d"}},
		"a/testdata/x.json":     {nil, []string{"a"}},
		"samples/orders/x.yaml": {nil, []string{"d"}},
		"README.md":             {},
		".golangci.yml":         {[]string{"a", "b", "c", "d"}, nil},
		"go.sum":                {[]string{"a", "b", "c", "d"}, []string{"a", "c", "d"}},
	} {
		got := decide(packages, ".", []string{file})
		if !slices.Equal(got.lint, want.lint) || !slices.Equal(got.test, want.test) {
			t.Errorf("%s: got %v, want %v", file, got, want)
		}
	}
}

func TestFlakesListsEveryFailureWithItsSeedAndLog(t *testing.T) {
	root := repository(t, map[string]string{
		"go.mod":           "module " + module + "\n\ngo 1.26\n",
		"a/a_test.go":      "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestSecond(t *testing.T) {\n\tif _, err := os.Stat(\"ran\"); err == nil {\n\t\tt.Fatal(\"it ran before\")\n\t}\n\t_ = os.WriteFile(\"ran\", nil, 0o600)\n}\n",
		"fine/one_test.go": "package fine\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) {}\n",
	})
	var out bytes.Buffer
	if code := run(t.Context(), []string{"-C", root, "-runs", "2", "flakes", "./fine"}, &out); code != 0 {
		t.Errorf("the exit code is %d:\n%s", code, out.String())
	}
	requireContains(t, out.String(), "fine run 2 passed", "flakes runs=2 failed=0\n")
	out.Reset()
	if code := run(t.Context(), []string{"-C", root, "-runs", "5", "flakes"}, &out); code != 1 {
		t.Errorf("the exit code is %d, not 1:\n%s", code, out.String())
	}
	requireContains(t, out.String(), "failed a TestSecond seed=1", "bin/flakes/a.", "again: make test-unit PACKAGES=./a SHUFFLE=1")
	if !strings.HasSuffix(out.String(), "\nflakes runs=5 failed=1\n") {
		t.Errorf("the last line is another:\n%s", out.String())
	}
}
