package dependencies

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
)

// Request says what to install, where and with what.
type Request struct {
	// Python chooses pip and requirements.txt; otherwise it is npm and package.json.
	Python bool
	// Program is npm or the Python interpreter.
	Program string
	// Dir has the manifest and gets the packages.
	Dir string
	// Manifest is what its user calls the manifest.
	Manifest string
	// Setup is a file of the package manager's settings, which does not have to be there.
	Setup string
	// Work is a folder for what the package manager leaves behind.
	Work string
	// Cache is the folder where downloads are kept; empty: the package manager's own.
	Cache string
	// Discard keeps no downloads.
	Discard bool
	Env     []string
	Site    Site
	Guard   Guard // nil: none
}

// ManifestFile is the name of the file that names dependencies.
func ManifestFile(python bool) string {
	if python {
		return "requirements.txt"
	}
	return "package.json"
}

// Install puts the dependencies that the manifest names beside it, and copies what the package manager prints to out.
// A manifest that is not there, or that names nothing, is no failure.
func Install(ctx context.Context, r Request, out io.Writer) error {
	manifest, err := os.ReadFile(filepath.Join(r.Dir, ManifestFile(r.Python)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &Failure{Reason: build.InvalidDependencies, Message: ManifestFile(r.Python) + " cannot be read: " + err.Error()}
	}
	switch {
	case !Needed(r.Python, manifest):
		return nil
	case r.Python:
		return r.pip(ctx, out)
	}
	return r.npm(ctx, out)
}

// Needed reports whether a manifest leaves anything to do for its package manager.
func Needed(python bool, manifest []byte) bool {
	if strings.TrimSpace(string(manifest)) == "" {
		return false
	}
	var parsed map[string]json.RawMessage
	if python || json.Unmarshal(manifest, &parsed) != nil {
		return true
	}
	for _, key := range []string{
		"dependencies", "optionalDependencies", "peerDependencies", "bundleDependencies", "bundledDependencies", "workspaces", "scripts",
	} {
		if value := strings.Join(strings.Fields(string(parsed[key])), ""); value != "" && value != "{}" && value != "[]" && value != "null" {
			return true
		}
	}
	return false
}

// npm runs the scripts of packages, because native ones need them.
func (r Request) npm(ctx context.Context, out io.Writer) error {
	line := []string{r.Program, "install", "--no-package-lock"}
	for _, lock := range []string{"npm-shrinkwrap.json", "package-lock.json"} {
		if _, err := os.Stat(filepath.Join(r.Dir, lock)); err == nil {
			line = []string{r.Program, "ci"}
		}
	}
	line = append(line, "--omit=dev", "--no-audit", "--no-fund", "--no-progress")
	env := slices.Concat(r.Env, r.setup("NPM_CONFIG_USERCONFIG"), []string{
		"npm_config_update_notifier=false", "npm_config_dangerously_allow_all_scripts=true", "npm_config_fetch_retries=2",
		"npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_retry_maxtimeout=5000",
	})
	switch {
	case r.Discard:
		env = append(env, "npm_config_cache="+filepath.Join(r.Work, "npm-cache"))
	case r.Cache != "":
		env = append(env, "npm_config_cache="+filepath.Join(r.Cache, "npm"))
	}
	installed := Run(ctx, Command{Dir: r.Dir, Env: env, Args: line, Guard: r.Guard}, out)
	if installed.Err == nil {
		return nil
	}
	return r.failed(installed, func() (build.Reason, string) { return r.classifyNPM(installed.Output) })
}

// pip installs flat, below one directory, which the runtime puts on sys.path.
func (r Request) pip(ctx context.Context, out io.Writer) error {
	log := filepath.Join(r.Work, "pip.log")
	target := filepath.Join(r.Dir, build.PythonPackages)
	line := []string{
		r.Program, "-I", "-m", "pip", "install", "--target", target, "--no-compile", "--no-input", "--disable-pip-version-check",
		"--progress-bar", "off", "--root-user-action", "ignore", "--no-warn-script-location", "--retries", "2", "--log", log,
	}
	switch {
	case r.Discard:
		line = append(line, "--no-cache-dir")
	case r.Cache != "":
		line = append(line, "--cache-dir", filepath.Join(r.Cache, "pip"))
	}
	env := slices.Concat(r.Env, r.setup("PIP_CONFIG_FILE"))
	installed := Run(ctx, Command{Dir: r.Dir, Env: env, Args: append(line, "-r", ManifestFile(true)), Guard: r.Guard}, out)
	if installed.Err == nil {
		return nil
	}
	debug, _ := os.ReadFile(log) //nolint:gosec // our own file, which may not be there
	return r.failed(installed, func() (build.Reason, string) { return r.classifyPip(installed.Output, string(debug)) })
}

// Explain says why a program failed that only runs the package manager, with whatever else it does.
func (r Request) Explain(how Ended) *Failure {
	return r.failed(how, func() (build.Reason, string) {
		if r.Python {
			return r.classifyPip(how.Output, "")
		}
		return r.classifyNPM(how.Output)
	})
}

// setup points the package manager at its settings, if there are any.
func (r Request) setup(variable string) []string {
	if _, err := os.Stat(r.Setup); err != nil {
		return nil
	}
	return []string{variable + "=" + r.Setup}
}
