package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// component is a module, or Go's standard library, limited to the packages in the binaries.
type component struct {
	path, version string
	packages      []string // in the binaries
	files         []file
}

// file is a licence or a notice.
type file struct {
	name     string // below the module's root
	text     string
	notice   bool     // accompanies a licence
	licences []string // SPDX identifiers; empty for a notice
	known    bool     // most of its text is a known licence
}

// Names of files, without an extension. Names with LICENSE may have any suffix: LICENSE-MIT, LICENSE.BSD.
var (
	licenceName = regexp.MustCompile(`(?i)^(un)?licen[cs]es?([-._].*)?$|^copying([-._].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^(notices?|patents|copyright|third[-_]?party.*)([-._](txt|md))?$`)
	sourceName  = regexp.MustCompile(`(?i)\.(go|s|c|h|py|js|json|ya?ml|tpl|tmpl|sh|sum|mod)$`)
)

// knownPercent is the minimum part of a text that has to be a known licence: the rest consists of names and years. It
// is the threshold of pkg.go.dev.
const knownPercent = 75

type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *listedModule
}

type listedModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *listedModule
}

// collect returns the modules of the packages on all of the platforms.
func collect(ctx context.Context, dir string, platforms, patterns []string) ([]component, error) {
	used := map[string]*listedModule{}
	compiled := map[string][]listed{} // by module
	for _, platform := range platforms {
		system, architecture, found := strings.Cut(platform, "/")
		if !found {
			return nil, fmt.Errorf("platform %q: use OS/ARCH", platform)
		}
		packages, err := list(ctx, dir, system, architecture, patterns)
		if err != nil {
			return nil, err
		}
		for _, pkg := range packages {
			if pkg.Module == nil || pkg.Module.Main {
				continue
			}
			used[pkg.Module.Path] = pkg.Module
			compiled[pkg.Module.Path] = append(compiled[pkg.Module.Path], pkg)
		}
	}
	if len(used) == 0 {
		return nil, errors.New("the packages have no dependencies: pass the packages of the binaries")
	}
	all := make([]component, 0, len(used)+1)
	for path, module := range used {
		one, err := read(path, module, compiled[path])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	standard, err := standardLibrary(ctx, dir)
	if err != nil {
		return nil, err
	}
	all = append(all, standard)
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

func list(ctx context.Context, dir, system, architecture string, patterns []string) ([]listed, error) {
	args := append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module"}, patterns...)
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // go list reads what its caller names
	command.Dir = dir
	command.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0")
	var problems bytes.Buffer
	command.Stderr = &problems
	printed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s/%s: %w: %s", system, architecture, err, strings.TrimSpace(problems.String()))
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(printed)); ; {
		var pkg listed
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode the output of go list: %w", err)
		}
		packages = append(packages, pkg)
	}
}

// standardLibrary returns Go's standard library, which is compiled into each binary, with parts of Go's own modules,
// which have the same licence.
func standardLibrary(ctx context.Context, dir string) (component, error) {
	command := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION")
	command.Dir = dir
	printed, err := command.Output()
	if err != nil {
		return component{}, fmt.Errorf("ask go for its standard library: %w", err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(printed)), "\n")
	return read("std", &listedModule{Version: version, Dir: root}, nil)
}

// read reads the files of a module: those of its root, and of each folder from there to a used package.
func read(path string, module *listedModule, packages []listed) (component, error) {
	if module.Replace != nil {
		module.Dir, module.Version = module.Replace.Dir, module.Replace.Path+"@"+module.Replace.Version
	}
	if module.Dir == "" {
		return component{}, fmt.Errorf("%s is not in the cache of modules: run go mod download", path)
	}
	one := component{path: path, version: module.Version}
	var directories []string
	for _, pkg := range packages {
		directories = append(directories, pkg.Dir)
		if !slices.Contains(one.packages, pkg.ImportPath) {
			one.packages = append(one.packages, pkg.ImportPath)
		}
	}
	for _, folder := range folders(module.Dir, directories) {
		found, err := readFolder(module.Dir, folder)
		if err != nil {
			return component{}, fmt.Errorf("%s: %w", path, err)
		}
		one.files = append(one.files, found...)
	}
	return one, nil
}

// readFolder reads the licences and notices of a folder.
func readFolder(root, folder string) ([]file, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, entry := range entries {
		isLicence, isNotice := licenceName.MatchString(entry.Name()), noticeName.MatchString(entry.Name())
		if !entry.Type().IsRegular() || !isLicence && !isNotice || sourceName.MatchString(entry.Name()) {
			continue
		}
		source := filepath.Join(folder, entry.Name())
		text, err := os.ReadFile(source) //nolint:gosec // a file of a module that is in go.sum
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, source)
		if err != nil {
			return nil, err
		}
		files = append(files, recognized(filepath.ToSlash(name), text, isLicence))
	}
	return files, nil
}

// folders returns the folders from the root to each package, the root first.
func folders(root string, packages []string) []string {
	found := map[string]bool{root: true}
	for _, folder := range packages {
		for strings.HasPrefix(folder, root+string(filepath.Separator)) {
			found[folder] = true
			folder = filepath.Dir(folder)
		}
	}
	all := make([]string, 0, len(found))
	for folder := range found {
		all = append(all, folder)
	}
	slices.Sort(all)
	return all
}

func recognized(name string, text []byte, isLicence bool) file {
	read := file{name: name, text: string(text), notice: !isLicence}
	if read.notice {
		return read
	}
	coverage := licensecheck.Scan(text)
	read.known = coverage.Percent >= knownPercent
	for _, match := range coverage.Match {
		if !slices.Contains(read.licences, match.ID) {
			read.licences = append(read.licences, match.ID)
		}
	}
	slices.Sort(read.licences)
	return read
}
