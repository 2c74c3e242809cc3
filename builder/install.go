package builder

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
)

// install puts the dependencies that dir's manifest names into dir.
func (b *Builder) install(ctx context.Context, plan build.Plan, dir string) error {
	language := languageOf(plan)
	manifest, err := os.ReadFile(filepath.Join(dir, language.manifest)) //nolint:gosec // in the build's own directory
	if os.IsNotExist(err) || err == nil && strings.TrimSpace(string(manifest)) == "" {
		return nil
	}
	if err != nil {
		return fail(build.InvalidDependencies, "%s cannot be read: %s", language.manifest, err)
	}
	if language.python {
		return b.pip(ctx, plan, dir)
	}
	if needsNothing(manifest) {
		return nil
	}
	return b.npm(ctx, plan, dir)
}

// needsNothing is true for a package.json in which there is nothing for npm to do.
func needsNothing(manifest []byte) bool {
	var parsed map[string]json.RawMessage
	if json.Unmarshal(manifest, &parsed) != nil {
		return false
	}
	for _, key := range []string{
		"dependencies", "optionalDependencies", "peerDependencies", "bundleDependencies", "bundledDependencies", "workspaces", "scripts",
	} {
		if value := strings.Join(strings.Fields(string(parsed[key])), ""); value != "" && value != "{}" && value != "[]" && value != "null" {
			return false
		}
	}
	return true
}

// npm runs the scripts of packages, because native ones need them.
func (b *Builder) npm(ctx context.Context, plan build.Plan, dir string) error {
	line := []string{"npm", "install", "--no-package-lock"}
	for _, lock := range []string{"npm-shrinkwrap.json", "package-lock.json"} {
		if _, err := os.Stat(filepath.Join(dir, lock)); err == nil {
			line = []string{"npm", "ci"}
		}
	}
	line = append(line, "--omit=dev", "--no-audit", "--no-fund", "--no-progress")
	cache := filepath.Join(b.o.Work, "npm-cache")
	if b.o.Cache != "" {
		cache = filepath.Join(b.o.Cache, "npm")
	}
	env := slices.Concat(b.env, b.packageSetup(languageOf(plan), "NPM_CONFIG_USERCONFIG"), []string{
		"npm_config_cache=" + cache, "npm_config_update_notifier=false", "npm_config_dangerously_allow_all_scripts=true", "npm_config_fetch_retries=2",
		"npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_retry_maxtimeout=5000",
	})
	installed := run(ctx, command{dir: dir, env: env, args: line}, b.deps.Output)
	if installed.err == nil {
		return nil
	}
	return failedInstall(installed, func() (build.Reason, string) { return classifyNPM(installed.output, manifestOf(plan)) })
}

// pip installs flat, below one directory, which the runtime puts on sys.path.
func (b *Builder) pip(ctx context.Context, plan build.Plan, dir string) error {
	log := filepath.Join(b.o.Work, "pip.log")
	target := filepath.Join(dir, build.PythonPackages)
	line := []string{
		"python3", "-I", "-m", "pip", "install", "--target", target, "--no-compile", "--no-input", "--disable-pip-version-check",
		"--progress-bar", "off", "--root-user-action", "ignore", "--no-warn-script-location", "--retries", "2", "--log", log,
	}
	if b.o.Cache != "" {
		line = append(line, "--cache-dir", filepath.Join(b.o.Cache, "pip"))
	} else {
		line = append(line, "--no-cache-dir")
	}
	env := slices.Concat(b.env, b.packageSetup(languageOf(plan), "PIP_CONFIG_FILE"))
	installed := run(ctx, command{dir: dir, env: env, args: append(line, "-r", "requirements.txt")}, b.deps.Output)
	if installed.err == nil {
		return nil
	}
	debug, _ := os.ReadFile(log) //nolint:gosec // the build's own file, which may not be there
	return failedInstall(installed, func() (build.Reason, string) {
		return classifyPip(installed.output, string(debug), manifestOf(plan))
	})
}

// packageSetup points the package manager at its settings in the Secret of private packages, if there are any.
func (b *Builder) packageSetup(language language, variable string) []string {
	file := filepath.Join(b.o.Packages, language.packageSetup)
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	return []string{variable + "=" + file}
}

// manifestOf names the dependencies as the user knows them.
func manifestOf(plan build.Plan) string {
	if plan.Git == nil {
		return "spec.source.inline.dependencies"
	}
	return languageOf(plan).manifest + " in " + whereIn(plan)
}
