package dependencies

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

// Request says what to install, where and with what.
type Request struct {
	// Language has the package manager.
	Language *language.Language
	// Program is the package manager, or what runs it.
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
	Site    language.Site
	Guard   Guard // nil: none
}

// Install puts the dependencies that the manifest names beside it, and copies what the package manager prints to out.
// A manifest that is not there, or that names nothing, is no failure.
func Install(ctx context.Context, r Request, out io.Writer) error {
	name := r.Language.Packages.Manifest
	manifest, err := os.ReadFile(filepath.Join(r.Dir, name)) //nolint:gosec // the name is the language's
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &Failure{Reason: language.InvalidDependencies, Message: name + " cannot be read: " + err.Error()}
	}
	if !Needed(r.Language, manifest) {
		return nil
	}
	return r.install(ctx, out)
}

// Needed reports whether a manifest leaves anything to do for its package manager.
func Needed(l *language.Language, manifest []byte) bool {
	if strings.TrimSpace(string(manifest)) == "" {
		return false
	}
	return l.Packages.Needed == nil || l.Packages.Needed(manifest)
}

func (r Request) install(ctx context.Context, out io.Writer) error {
	command := r.Language.Packages.Install(language.Installation{
		Program: r.Program, Dir: r.Dir, Settings: r.settings(), Work: r.Work, Cache: r.Cache, Discard: r.Discard, Has: r.has,
	})
	installed := Run(ctx, Command{Dir: r.Dir, Env: slices.Concat(r.Env, command.Env), Args: command.Line, Guard: r.Guard}, out)
	if installed.Err == nil {
		return nil
	}
	var log []byte
	if command.Log != "" {
		log, _ = os.ReadFile(command.Log) // the package manager's own file, which may not be there
	}
	return r.failed(installed, string(log))
}

// Explain says why a program failed that only runs the package manager, with whatever else it does.
func (r Request) Explain(how Ended) *Failure { return r.failed(how, "") }

// settings is the file of the package manager's settings, if there are any.
func (r Request) settings() string {
	if _, err := os.Stat(r.Setup); err != nil {
		return ""
	}
	return r.Setup
}

func (r Request) has(name string) bool {
	_, err := os.Stat(filepath.Join(r.Dir, name))
	return err == nil
}
