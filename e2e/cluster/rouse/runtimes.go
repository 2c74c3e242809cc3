package rouse

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

// Runtime is one runtime of Functions and where its language comes from on the local cluster.
type Runtime struct {
	Name     string              // as in spec.runtime
	Kind     string              // directory below runtimes/
	Suite    string              // of Debian, for the base
	NodeJS   string              // version of the npm package that carries the Node.js binary
	Go       string              // version of Go's toolchain
	Python   *components.CPython // the interpreter, where it is not the suite's
	Official string              // image of the language, for clusters with Docker
	Really   string              // what runs
}

// Catalogue lists every runtime. Node.js comes as a binary inside an npm package; Python is what a suite of Debian
// carries, and 3.12, which none does, an interpreter inside a Java archive. Go is the toolchain of its own module proxy.
func Catalogue() []Runtime {
	python312 := components.Python312().CPython
	return []Runtime{
		nodeJS("nodejs20", "20.20.2"),
		nodeJS("nodejs22", "22.23.3"),
		nodeJS("nodejs24", "24.21.0"),
		nodeJS("nodejs26", "26.10.0"),
		{
			Name: "python312", Kind: "python", Suite: "bookworm", Python: python312, Official: "python:3.12-slim",
			Really: "Python " + python312.Version() + " on Debian bookworm",
		},
		{Name: "python314", Kind: "python", Suite: "sid", Official: "python:3.14-slim", Really: "Python 3.14 of Debian sid"},
		{Name: "go126", Kind: "golang", Suite: "bookworm", Go: goVersion, Official: "golang:1.26-bookworm", Really: "Go " + goVersion + " on Debian bookworm"},
	}
}

// version is that of the language where it is not the base's.
func (r Runtime) version() string {
	if r.Python != nil {
		return r.Python.Jar.Version
	}
	return r.NodeJS + r.Go
}

// goVersion is the toolchain's, which compiles the Functions of the local cluster.
const goVersion = "1.26.8"

func nodeJS(name, version string) Runtime {
	major, _, _ := strings.Cut(version, ".")
	return Runtime{
		Name: name, Kind: "nodejs", Suite: "bookworm", NodeJS: version, Official: "node:" + major + "-bookworm-slim",
		Really: "Node.js " + version + " on Debian bookworm",
	}
}

// DefaultRuntimes returns the runtimes of the samples and the e2e tests: the oldest and the newest of each language.
func DefaultRuntimes() []string {
	return []string{"nodejs22", "nodejs26", "python312", "python314", "go126"}
}

// Choose returns the runtimes with the given names.
func Choose(names []string) ([]Runtime, error) {
	var chosen []Runtime
	var known []string
	for _, runtime := range Catalogue() {
		known = append(known, runtime.Name)
		if slices.Contains(names, runtime.Name) {
			chosen = append(chosen, runtime)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no runtime %q, only %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// imageFile is a runtime's image.json, which configures its image.
type imageFile struct {
	Entrypoint []string          `json:"entrypoint"`
	Workdir    string            `json:"workdir"`
	User       string            `json:"user"`
	Env        map[string]string `json:"env"`
	Port       int               `json:"port"`
}

// searchPath is the search path of the official images.
const searchPath = "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"

// Runtime makes the image of one runtime: a Debian, the language with its package manager, and the layer that the
// runtime's own layer.sh fills. This layer changes most often, so it is the last.
func (s Source) Runtime(ctx context.Context, runtime Runtime) (image.Image, error) {
	base, err := s.base(ctx, runtime)
	if err != nil {
		return image.Image{}, err
	}
	layers, interpreter, err := s.language(ctx, runtime, base)
	if err != nil {
		return image.Image{}, err
	}
	server, err := s.server(ctx, runtime, base, interpreter)
	if err != nil {
		return image.Image{}, err
	}
	config, err := s.config(runtime)
	if err != nil {
		return image.Image{}, err
	}
	return image.Image{Name: "rouse-runtime-" + runtime.Name, Layers: append(layers, server), Config: config}, nil
}

// language makes the layers of the language, and returns its interpreter unless it is in the base.
func (s Source) language(ctx context.Context, runtime Runtime, base image.Layer) ([]image.Layer, string, error) {
	if runtime.Go != "" {
		toolchain, program, err := s.goLayer(ctx, runtime.Go)
		return []image.Layer{base, toolchain}, program, err
	}
	if runtime.Python != nil {
		python, program, err := s.pythonLayer(ctx, runtime)
		return []image.Layer{base, python}, program, err
	}
	if runtime.NodeJS == "" {
		pip, err := s.pipLayer(ctx, runtime, base)
		return []image.Layer{base, pip}, "", err
	}
	interpreter, err := s.nodeBinary(ctx, runtime.NodeJS)
	if err != nil {
		return nil, "", err
	}
	node, err := s.nodeLayer(runtime.NodeJS, native, interpreter)
	if err != nil {
		return nil, "", err
	}
	npm, err := s.npmLayer(ctx)
	return []image.Layer{base, node, npm}, interpreter, err
}

// server makes the layer with the server. Its key covers the sources of the runtime and the versions they are prepared
// for.
func (s Source) server(ctx context.Context, runtime Runtime, base image.Layer, interpreter string) (image.Layer, error) {
	dir := filepath.Join(s.Repository, "runtimes", runtime.Kind)
	sources, err := sourcesOf(dir)
	if err != nil {
		return image.Layer{}, fmt.Errorf("read the runtime %s: %w", runtime.Kind, err)
	}
	sum, err := state.KeyOfFiles(dir, sources...)
	if err != nil {
		return image.Layer{}, err
	}
	digest, err := base.Digest()
	if err != nil {
		return image.Layer{}, err
	}
	name := "runtime-" + runtime.Name
	layer, err := s.Store.Layer(name, state.Key(sum, digest.Hex, runtime.version()), func(file string) error {
		return s.buildServer(ctx, runtime, base, interpreter, file)
	})
	if err != nil {
		return image.Layer{}, err
	}
	return layer, s.Store.Cache.Prune("layers", name, kept)
}

func (s Source) buildServer(ctx context.Context, runtime Runtime, base image.Layer, interpreter, file string) error {
	work, remove, err := s.Store.Cache.Temporary(runtime.Name)
	if err != nil {
		return err
	}
	defer remove()
	if interpreter == "" {
		if interpreter, err = s.pythonOf(ctx, base, work); err != nil {
			return err
		}
	}
	tree := filepath.Join(work, "tree")
	fill := command.Command{
		Name: filepath.Join(s.Repository, "runtimes", runtime.Kind, "layer.sh"), Args: []string{tree, interpreter},
		Log: filepath.Join(s.Logs, "runtime-"+runtime.Name+".log"),
	}
	if _, err := fill.Run(ctx); err != nil {
		return err
	}
	return pack.Dir(file, tree)
}

func (s Source) config(runtime Runtime) (v1.Config, error) {
	content, err := os.ReadFile(filepath.Join(s.Repository, "runtimes", runtime.Kind, "image.json"))
	if err != nil {
		return v1.Config{}, err
	}
	config, err := parseConfig(content, runtime.Really)
	if runtime.Python != nil {
		config.Env = append(config.Env, authorities)
		slices.Sort(config.Env)
	}
	return config, err
}

func parseConfig(content []byte, really string) (v1.Config, error) {
	var file imageFile
	if err := json.Unmarshal(content, &file); err != nil {
		return v1.Config{}, fmt.Errorf("read image.json: %w", err)
	}
	config := v1.Config{
		Entrypoint: file.Entrypoint, WorkingDir: file.Workdir, User: file.User, Env: []string{searchPath},
		Labels: map[string]string{"run.rouse.language": really},
	}
	for name, value := range file.Env {
		config.Env = append(config.Env, name+"="+value)
	}
	slices.Sort(config.Env)
	if file.Port != 0 {
		config.ExposedPorts = map[string]struct{}{fmt.Sprintf("%d/tcp", file.Port): {}}
	}
	return config, nil
}

// sourcesOf lists the inputs of a runtime's layer: all files except installed packages, caches, tests, and the Go
// sources in the same folder.
func sourcesOf(dir string) ([]string, error) {
	var sources []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		skip := path != dir && (name == "node_modules" || name == "test" || name == "tests" || name == "__pycache__" || strings.HasPrefix(name, "."))
		switch {
		case skip && entry.IsDir():
			return filepath.SkipDir
		case !skip && entry.Type().IsRegular() && !isDescription(dir, path):
			sources = append(sources, path)
		}
		return nil
	})
	return sources, err
}

func isDescription(dir, path string) bool {
	return filepath.Dir(path) == dir && filepath.Ext(path) == ".go"
}
