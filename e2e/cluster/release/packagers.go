package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

// The package managers with which Functions' dependencies are installed. The official images of both languages bring
// theirs. One npm runs on every Node.js here.
const npmVersion = "11.21.2"

// npmLayer puts npm where the official images have it.
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

// pipLayer puts pip, with bytecode for the base's Python, where Debian's package would have it, which needs four times
// the space.
func (s Source) pipLayer(ctx context.Context, runtime Runtime, base image.Layer) (image.Layer, error) {
	digest, err := base.Digest()
	if err != nil {
		return image.Layer{}, err
	}
	pip := component.Pip()
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
		files, err := pack.Tree(tree)
		if err != nil {
			return err
		}
		return pack.Files(file, files)
	})
}

func (s Source) installPip(ctx context.Context, tree, python string) error {
	packages, log := filepath.Join(tree, "usr", "lib", "python3", "dist-packages"), filepath.Join(s.Logs, "pip.log")
	if err := component.Pip().Install(ctx, packages, log); err != nil {
		return err
	}
	compile := command.Command{Name: python, Log: log, Args: []string{
		"-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", tree, "-p", "/", packages,
	}}
	_, err := compile.Run(ctx)
	return err
}
