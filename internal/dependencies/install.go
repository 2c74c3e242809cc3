package dependencies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

// Image describes a runtime's image as the place of a build, for messages.
func Image() language.Site {
	return language.Site{
		Name:        "the runtime's image",
		Credentials: "put credentials into the Secret serverless-package-registry-config of the Function's namespace",
		Compiler:    "use a package or version that brings a binary for this platform, or a runtimeImageOverride that has compilers",
		Trust:       "add the certificate of its authority to the installation's caBundle",
		Manager:     "use a runtimeImageOverride that has it",
		Memory:      "choose a larger build profile in spec.resourceConfiguration.build",
		Space:       "the dependencies do not fit into the build's volume; depend on less, or ask the operator for a larger one",
		Later:       "it is tried again",
	}
}

// Machine describes the developer's machine as the place of a build, for messages.
func Machine(of *language.Language) language.Site {
	return language.Site{
		Name: "this machine",
		Credentials: "put credentials into the Secret serverless-package-registry-config of the Function's namespace, " +
			"or into your own " + of.Packages.Settings,
		Compiler: "use a package or version that brings a binary for this platform, or install a compiler; images of the runtimes have none",
		Trust:    "set " + of.Local.TrustVariable + " to a file with the certificate of its authority",
		Manager:  "install it: " + of.Local.ManagerRemedy,
		Memory:   "end other programs",
		Space:    "the disk is full; free space on it",
		Later:    "once it does, save the file of the Function to try again",
	}
}

// Request describes an installation.
type Request struct {
	// Language is the language whose package manager is used.
	Language *language.Language
	// Program is the package manager, or the program that runs it.
	Program string
	// Dir contains the manifest, and receives the packages.
	Dir string
	// Manifest is the user's name for the manifest in messages.
	Manifest string
	// Setup is an optional file of settings for the package manager.
	Setup string
	// Work is a folder for temporary files of the package manager.
	Work string
	// Cache is the folder of the download cache; empty: the package manager's own.
	Cache string
	// Discard disables the download cache.
	Discard bool
	Env     []string
	Site    language.Site
	Guard   Guard // may be nil
}

// Install installs the dependencies in the manifest's folder, and copies the package manager's output to out. A missing
// or empty manifest is not an error.
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

// Needed reports whether a manifest names any dependencies to install.
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
		log, _ = os.ReadFile(command.Log) // the package manager's own file, which may be missing
	}
	return r.failed(installed, string(log))
}

// Explain classifies the failure of a program that runs the package manager among other things.
func (r Request) Explain(how Ended) *Failure { return r.failed(how, "") }

// settings returns the path of the package manager's settings, if the file exists.
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

// maxSourceFile bounds the size of a source file that the language inspects.
const maxSourceFile = 8 << 20

// Compilation describes a compilation. Dir of its Request is the project's folder, which contains the source.
type Compilation struct {
	Request

	// Modules and Objects are folders for downloaded modules and compiled objects; empty: the machine's own.
	Modules, Objects string
	// Server is the folder with the sources of the runtime's server.
	Server string
	// Binary is the path of the output.
	Binary string
}

// Compile compiles a source to a binary, and copies the compiler's output to out. It follows no link that leads out of
// the source.
func Compile(ctx context.Context, c Compilation, out io.Writer) error {
	files, err := c.project()
	if err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(c.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return fmt.Errorf("make a folder to compile in: %w", err)
		}
		_ = os.Remove(file) // it may be a link in the source
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	command := c.Language.Compiled.Build(language.Compilation{
		Program: c.Program, Binary: c.Binary, Settings: c.settings(), Modules: c.Modules, Objects: c.Objects,
	})
	compiled := Run(ctx, Command{
		Dir: filepath.Join(c.Dir, language.MainDir), Env: slices.Concat(c.Env, command.Env), Args: command.Line, Guard: c.Guard,
	}, out)
	if compiled.Err == nil {
		return nil
	}
	return c.failed(compiled, "")
}

// project returns the files that the language adds to the source.
func (c Compilation) project() (map[string]string, error) {
	dir := filepath.Join(c.Dir, language.SourceDir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	names, err := namesIn(root)
	if err != nil {
		return nil, err
	}
	files, problem := c.Language.Compiled.Project(language.Project{
		Names: names, Read: func(name string) string { return textIn(root, name) }, Server: c.Server, Manifest: c.Manifest,
	})
	if problem != "" {
		return nil, &Failure{Reason: language.SourceInvalid, Message: problem}
	}
	return files, nil
}

// namesIn lists the files of a source. The target of a link must lie within it.
func namesIn(root *os.Root) ([]string, error) {
	var names []string
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := root.Stat(name)
		if err != nil {
			return &Failure{
				Reason:  language.SourceInvalid,
				Message: name + " is a link that leads nowhere, or out of the source; put the file itself there",
			}
		}
		if info.Mode().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

func textIn(root *os.Root, name string) string {
	file, err := root.Open(name)
	if err != nil {
		return "" // the compiler reports unreadable files
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxSourceFile))
	if err != nil {
		return ""
	}
	return string(text)
}
