package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// failure is a failed test or tier, with the command that repeats only it.
type failure struct{ what, again string }

const module = "github.com/rouse-run/rouse"

var (
	failedTest    = regexp.MustCompile(`^--- FAIL: (\S+)`)
	timedOutTest  = regexp.MustCompile(`^\t+((?:Test|Fuzz|Example)\w*)(?:/\S+)? \(`) // below "running tests:"
	failedPackage = regexp.MustCompile(`^FAIL\t(\S+)`)
	failedScript  = regexp.MustCompile(`^(?:FAILED (\S+)|✖ (.+) \([\d.]+ms\))`) // pytest, and Node.js
	failedRuntime = regexp.MustCompile(`^== runtimes/(\w+) FAILED`)
)

// failuresOf parses the output of a failed tier: it returns Go tests with their package, tests of a runtime, or else
// the tier as a whole.
func failuresOf(tier, output, root string) []failure {
	var found []failure
	var tests, scripts []string
	for line := range strings.SplitSeq(output, "\n") {
		if name := match(failedTest, line) + match(timedOutTest, line); name != "" && !slices.Contains(tests, name) {
			tests = append(tests, name)
		}
		if name := match(failedScript, line); name != "" && !slices.Contains(scripts, name) {
			scripts = append(scripts, name)
		}
		if name := match(failedPackage, line); name != "" {
			found = append(found, failedIn(name, tests, root))
			tests = nil
		}
		if name := match(failedRuntime, line); name != "" {
			what := strings.Join(append([]string{"runtimes/" + name}, scripts...), ", ")
			found = append(found, failure{what, "make test-runtimes RUNTIMES=" + name})
			scripts = nil
		}
	}
	if len(found) == 0 {
		found = append(found, failure{tier, "make " + tier})
	}
	return found
}

func failedIn(importPath string, tests []string, root string) failure {
	what := strings.TrimPrefix(importPath, module+"/")
	if len(tests) > 0 {
		what += ": " + strings.Join(tests, " ")
	}
	dir, pattern := moduleOf(root, strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"))
	run := ""
	if len(tests) > 0 {
		run = "^(" + strings.Join(tests, "|") + ")$"
	}
	target := "test-unit"
	switch {
	case dir != "." && run == "":
		return failure{what, fmt.Sprintf("go test -C %s %s", dir, pattern)}
	case dir != ".":
		return failure{what, fmt.Sprintf("go test -C %s %s -run '%s'", dir, pattern, run)}
	case onlyTagged(filepath.Join(root, pattern)):
		target = "test-e2e"
	}
	again := "make " + target + " PACKAGES=" + pattern
	if run != "" {
		again += " RUN='" + strings.ReplaceAll(run, "$", "$$") + "'" // make reads $$ as $
	}
	return failure{what, again}
}

// moduleOf returns the module of a package's folder, and the package's pattern in it.
func moduleOf(root, folder string) (dir, pattern string) {
	for dir = folder; dir != "." && dir != ""; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			break
		}
	}
	if dir == "" {
		dir = "."
	}
	relative, err := filepath.Rel(dir, filepath.Join(".", folder))
	if err != nil {
		return dir, "./..."
	}
	return dir, "./" + filepath.ToSlash(relative)
}

// onlyTagged reports whether all tests of a folder have the build tag e2e.
func onlyTagged(folder string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // of the repository
		if err != nil || !strings.HasPrefix(string(text), "//go:build e2e\n") {
			return false
		}
	}
	return len(files) > 0
}

// match returns the matched groups of the expression in a line.
func match(expression *regexp.Regexp, line string) string {
	groups := expression.FindStringSubmatch(line)
	return strings.Join(groups[min(1, len(groups)):], "")
}
