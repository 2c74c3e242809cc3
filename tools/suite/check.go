package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// check lints the packages that changed since base, tests them and those that import them, and verifies generated files.
func check(ctx context.Context, out io.Writer, root, base string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	if base == "" {
		base = branchedFrom(ctx, root)
	}
	files, err := changedSince(ctx, root, base)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "check: %d files differ from %.12s\n", len(files), base)
	lint, test := tier{name: "lint"}, tier{name: "test"}
	modules := map[string][]string{".": nil} // a test of the root module may read any file
	for _, file := range files {
		dir, _ := moduleOf(root, path.Dir(file))
		modules[dir] = append(modules[dir], file)
	}
	for _, dir := range slices.Sorted(maps.Keys(modules)) {
		scope, err := scopeOf(ctx, root, dir, files)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "check: module %s: %d packages changed, %d to test\n", dir, len(scope.lint), len(scope.test))
		if len(scope.lint) > 0 {
			lint.commands = append(lint.commands, command{filepath.Join(root, dir), slices.Concat([]string{
				"go", "tool", "-modfile=" + filepath.Join(root, "tools/lint/go.mod"), "golangci-lint", "run", "--allow-parallel-runners",
				"--config", filepath.Join(root, ".golangci.yml"),
			}, scope.lint)})
		}
		if len(scope.test) > 0 {
			// In order and without go vet, which the linter includes: passed results stay in go's test cache.
			test.commands = append(test.commands, command{filepath.Join(root, dir), slices.Concat([]string{"go", "test", "-vet=off", "-race", "-parallel", "4"}, scope.test)})
		}
	}
	tiers := []tier{lint, {"verify", []command{{root, []string{"make", "verify"}}}}, test}
	if slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(file, "samples/") }) {
		tiers = append(tiers, tier{"test-samples", []command{{root, []string{"make", "test-samples"}}}})
	}
	err = newRunner(out, root, "check").run(ctx, []stage{{tiers}})
	if slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(file, "runtimes/") && path.Ext(file) != ".go" }) {
		_, _ = fmt.Fprintln(out, "check: the runtimes' own tests take minutes and are not part of this: make test-runtimes")
	}
	return err
}

// branchedFrom returns the commit at which the branch left main, or else HEAD.
func branchedFrom(ctx context.Context, root string) string {
	for _, main := range []string{"origin/main", "main"} {
		if text, err := output(ctx, root, "git", "merge-base", "HEAD", main); err == nil {
			return strings.TrimSpace(text)
		}
	}
	return "HEAD"
}

// changedSince lists the files that differ from the commit, including untracked ones.
func changedSince(ctx context.Context, root, base string) ([]string, error) {
	changed, err := output(ctx, root, "git", "diff", "--name-only", "--no-renames", "-z", "--end-of-options", base, "--")
	if err != nil {
		return nil, err
	}
	added, err := output(ctx, root, "git", "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(changed+added, func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return slices.Compact(files), nil
}

func output(ctx context.Context, dir string, argv ...string) (string, error) {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // git and go
	command.Dir = dir
	var problems bytes.Buffer
	command.Stderr = &problems
	text, err := command.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv[:min(3, len(argv))], " "), err, strings.TrimSpace(problems.String()))
	}
	return string(text), err
}

// scopeOf lists the packages of a module to lint and to test.
func scopeOf(ctx context.Context, root, dir string, files []string) (scope, error) {
	packages, err := list(ctx, filepath.Join(root, dir))
	if err != nil {
		return scope{}, err
	}
	for _, p := range packages {
		if p.folder, err = filepath.Rel(root, p.Dir); err != nil {
			return scope{}, err
		}
		p.folder = filepath.ToSlash(p.folder)
		p.readReferences()
	}
	found := decide(packages, filepath.ToSlash(dir), files)
	for _, patterns := range [][]string{found.lint, found.test} {
		for n, folder := range patterns {
			relative, err := filepath.Rel(dir, folder)
			if err != nil {
				return scope{}, err
			}
			patterns[n] = "./" + filepath.ToSlash(relative)
		}
	}
	return found, nil
}
