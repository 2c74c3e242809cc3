package main

import (
	"archive/tar"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rouse-run/rouse/tools/pack"
)

// description is the image.json of a runtime's directory, which describes its images.
type description struct {
	Dir string `json:"-"`

	Runtime     string            `json:"runtime"`     // the name without a version
	Interpreter []string          `json:"interpreter"` // paths of the interpreter or compiler in bases
	Home        string            `json:"home"`        // the variable with the interpreter's library directory; empty: not needed
	Entrypoint  []string          `json:"entrypoint"`
	Workdir     string            `json:"workdir"`
	User        string            `json:"user"`
	Env         map[string]string `json:"env"`
	Port        int               `json:"port"`
}

// describeRuntime reads the description of a runtime in a source tree.
func describeRuntime(source, runtime string) (description, error) {
	files, err := filepath.Glob(filepath.Join(source, "runtimes", "*", "image.json"))
	if err != nil {
		return description{}, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return description{}, fmt.Errorf("read a runtime: %w", err)
		}
		described := description{Dir: filepath.Dir(file)}
		if err := json.Unmarshal(content, &described); err != nil {
			return description{}, fmt.Errorf("read %s: %w", file, err)
		}
		if described.Runtime == strings.TrimRight(runtime, "0123456789") {
			return described, nil
		}
	}
	return description{}, fmt.Errorf("BASES: there is no runtime %q", runtime)
}

// runtimeMaker makes images from a source tree.
type runtimeMaker struct {
	Source string
	Work   string      // an empty directory for intermediate files
	Native v1.Platform // platform of this machine
	Labels map[string]string
}

// Make makes the image of a runtime for the platforms.
func (m runtimeMaker) Make(ctx context.Context, base runtimeBase, platforms []v1.Platform) (v1.ImageIndex, error) {
	described, err := describeRuntime(m.Source, base.Runtime)
	if err != nil {
		return nil, err
	}
	native, err := base.Image(m.Native)
	if err != nil {
		return nil, err
	}
	interpreter, err := unpack(ctx, native, described, filepath.Join(m.Work, base.Runtime, "base"))
	if err != nil {
		return nil, fmt.Errorf("unpack the base of %s: %w", base.Runtime, err)
	}
	var made []pack.ForPlatform
	for _, platform := range platforms {
		built, err := m.forPlatform(ctx, base, described, interpreter, platform)
		if err != nil {
			return nil, fmt.Errorf("make the image of %s for %s/%s: %w", base.Runtime, platform.OS, platform.Architecture, err)
		}
		made = append(made, pack.ForPlatform{Platform: platform, Image: built})
	}
	return pack.Index(made...), nil
}

func (m runtimeMaker) forPlatform(ctx context.Context, base runtimeBase, described description, interpreter string, platform v1.Platform) (v1.Image, error) {
	below, err := base.Image(platform)
	if err != nil {
		return nil, err
	}
	if err := checkMachine(below, described, platform); err != nil {
		return nil, err
	}
	work := filepath.Join(m.Work, base.Runtime, platform.Architecture)
	tree := filepath.Join(work, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return nil, err
	}
	fill := program{Dir: m.Source, Env: []string{"TARGETARCH=" + platform.Architecture}}
	if _, err := fill.Run(ctx, filepath.Join(described.Dir, "layer.sh"), tree, interpreter); err != nil {
		return nil, err
	}
	packed := filepath.Join(work, "layer.tar")
	if err := pack.Dir(packed, tree); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(packed, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	file, err := below.ConfigFile()
	if err != nil {
		return nil, err
	}
	return pack.Extend(below, platform, m.config(described, file.Config), layer)
}

// config merges the description of the runtime into the base's configuration.
func (m runtimeMaker) config(described description, config v1.Config) v1.Config {
	config.Entrypoint, config.Cmd, config.WorkingDir, config.User = described.Entrypoint, nil, described.Workdir, described.User
	config.Env = slices.Clone(config.Env)
	for _, name := range slices.Sorted(maps.Keys(described.Env)) {
		config.Env = append(config.Env, name+"="+described.Env[name])
	}
	if described.Port != 0 {
		config.ExposedPorts = map[string]struct{}{fmt.Sprintf("%d/tcp", described.Port): {}}
	}
	labels := maps.Clone(config.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, m.Labels)
	config.Labels = labels
	return config
}

// unpack writes the files of a base of this machine's platform to a directory, and returns a program that runs its
// interpreter here, with the libraries of the base: code caches and bytecode have to be made by the interpreter that
// reads them.
func unpack(ctx context.Context, base v1.Image, described description, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	files := mutate.Extract(base)
	defer func() { _ = files.Close() }()
	if err := untar(ctx, files, dir); err != nil {
		return "", err
	}
	for _, place := range described.Interpreter {
		interpreter := filepath.Join(dir, place)
		if _, err := os.Stat(interpreter); err == nil {
			return runnable(dir, interpreter, described.Home)
		}
	}
	return "", fmt.Errorf("it has none of %v", described.Interpreter)
}

func untar(ctx context.Context, files io.Reader, dir string) error {
	tar := exec.CommandContext(ctx, "tar", "-x", "-C", dir, "--no-same-owner", "--exclude=dev/*", "--exclude=./dev/*")
	tar.Stdin = files
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	// tar does not read the end of the stream.
	_, err := io.Copy(io.Discard, files)
	return err
}

// runnable returns the interpreter, if it is statically linked, or a script that starts it by the loader of its own
// system.
func runnable(root, interpreter, home string) (string, error) {
	binary, err := elf.Open(interpreter)
	if err != nil {
		return "", fmt.Errorf("read the interpreter: %w", err)
	}
	defer func() { _ = binary.Close() }()
	if binary.Section(".interp") == nil {
		return interpreter, nil
	}
	loader, err := firstOf(root, "lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1")
	if err != nil {
		return "", fmt.Errorf("find the loader of glibc: %w", err)
	}
	var libraries []string
	for _, place := range []string{"usr/local/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"} {
		libraries = append(libraries, filepath.Join(root, place))
	}
	script := "#!/bin/sh\n"
	if home != "" {
		script += fmt.Sprintf("export %s=%q\n", home, filepath.Dir(filepath.Dir(interpreter)))
	}
	script += fmt.Sprintf("exec %q --library-path %q %q \"$@\"\n", loader, strings.Join(libraries, ":"), interpreter)
	wrapper := root + ".interpreter"
	return wrapper, os.WriteFile(wrapper, []byte(script), 0o755)
}

func firstOf(root string, places ...string) (string, error) {
	for _, place := range places {
		if _, err := os.Stat(filepath.Join(root, place)); err == nil {
			return filepath.Join(root, place), nil
		}
	}
	return "", fmt.Errorf("it has none of %v", places)
}

// maxLinks is the maximum number of links to an interpreter.
const maxLinks = 5

// checkMachine returns an error when the interpreter of a base is for another machine than the base declares. Only
// interpreters of this machine can run here.
func checkMachine(base v1.Image, described description, platform v1.Platform) error {
	programs, err := programsOf(base, described)
	if err != nil {
		return fmt.Errorf("look into the base: %w", err)
	}
	for _, place := range described.Interpreter {
		header, found := programs.follow(place)
		if !found {
			continue
		}
		machine, err := machineOf(header)
		if err != nil {
			return fmt.Errorf("look at %s of the base: %w", place, err)
		}
		if want := platform.OS + "/" + platform.Architecture; machine != want {
			return fmt.Errorf("%s of the base is for %s and not for %s", place, machine, want)
		}
		return nil
	}
	return fmt.Errorf("the base has none of %v", described.Interpreter)
}

// programs holds the beginnings of files and the targets of links in the folders of interpreters.
type programs struct {
	headers map[string][]byte
	links   map[string]string
}

func programsOf(base v1.Image, described description) (programs, error) {
	found := programs{headers: map[string][]byte{}, links: map[string]string{}}
	folders := map[string]bool{}
	for _, place := range described.Interpreter {
		folders[path.Dir(place)] = true
	}
	files := mutate.Extract(base)
	defer func() { _ = files.Close() }()
	for archive := tar.NewReader(files); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		name := strings.TrimPrefix(path.Clean(entry.Name), "/")
		switch {
		case !folders[path.Dir(name)]:
		case entry.Typeflag == tar.TypeSymlink:
			found.links[name] = strings.TrimPrefix(path.Join("/", path.Dir(name), entry.Linkname), "/")
			if path.IsAbs(entry.Linkname) {
				found.links[name] = strings.TrimPrefix(path.Clean(entry.Linkname), "/")
			}
		case entry.Typeflag == tar.TypeReg:
			header := make([]byte, headerSize)
			if n, err := io.ReadFull(archive, header); err == nil {
				found.headers[name] = header[:n]
			}
		}
	}
}

func (p programs) follow(place string) ([]byte, bool) {
	for range maxLinks {
		if header, ok := p.headers[place]; ok {
			return header, true
		}
		next, ok := p.links[place]
		if !ok {
			return nil, false
		}
		place = next
	}
	return nil, false
}
