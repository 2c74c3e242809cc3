package builder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// begin reads the plan and sets the children's environment.
func (b *Builder) begin() (buildplan.Plan, error) {
	text, err := os.ReadFile(filepath.Join(b.o.Input, buildplan.PlanFile))
	if err != nil {
		return buildplan.Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	plan, err := buildplan.DecodePlan(text)
	if err != nil {
		return buildplan.Plan{}, err
	}
	b.ca, err = os.ReadFile(filepath.Join(b.o.Input, buildplan.CAFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return buildplan.Plan{}, fmt.Errorf("read the CA bundle: %w", err)
	}
	// Children start in other directories.
	for _, dir := range []*string{&b.o.Work, &b.o.Source, &b.o.Cache, &b.o.Packages, &b.o.Function, &b.o.Server} {
		if *dir != "" {
			if *dir, err = filepath.Abs(*dir); err != nil {
				return buildplan.Plan{}, fmt.Errorf("find the working directory: %w", err)
			}
		}
	}
	home, temporary := filepath.Join(b.o.Work, "home"), filepath.Join(b.o.Work, "tmp")
	if err := errors.Join(os.MkdirAll(home, 0o700), os.MkdirAll(temporary, 0o700)); err != nil {
		return buildplan.Plan{}, fmt.Errorf("make the working directory: %w", err)
	}
	trusted, err := trust(b.ca, filepath.Join(b.o.Work, buildplan.CAFile))
	if err != nil {
		return buildplan.Plan{}, err
	}
	b.env = slices.Concat(environment(os.Environ(), fips.Running().Mode()), trusted, []string{"HOME=" + home, "TMPDIR=" + temporary})
	for _, each := range languages.All() { // packages of one are built by programs in another
		b.env = append(b.env, each.BuildEnvironment...)
		if err := furnish(home, each.BuildHome); err != nil {
			return buildplan.Plan{}, err
		}
	}
	return plan, nil
}

// environment is what programs of the image get of ours. In which mode of FIPS 140-3 those run is for the image to say: a
// package's own program in Go would fail where it calls what is not approved.
func environment(ours []string, mode fips.Mode) []string {
	if !mode.Asked() {
		return ours
	}
	return slices.DeleteFunc(slices.Clone(ours), func(variable string) bool { return strings.HasPrefix(variable, fips.Variable+"=") })
}

// furnish writes the files that a language's programs look for in their HOME.
func furnish(home string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(home, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return fmt.Errorf("write %s of the home directory: %w", name, err)
		}
	}
	return nil
}

// beginTask is begin for the steps that make the Function's directory.
func (b *Builder) beginTask() (task, error) {
	plan, err := b.begin()
	if err != nil {
		return task{}, err
	}
	return taskOf(plan)
}

// emptyOut empties a directory that itself has to stay, because it is a mounted volume.
func emptyOut(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the Function's directory: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("clear the Function's directory: %w", err)
		}
	}
	return nil
}
