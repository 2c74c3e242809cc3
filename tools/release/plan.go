package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/semver"
)

// defaultRegistry is the default registry of images and the chart.
const defaultRegistry = "ghcr.io/rouse-run"

// projectURL is the URL of the source.
const projectURL = "https://github.com/rouse-run/rouse"

// release holds the common properties of all parts of a release.
type release struct {
	Version  string    // of the tag, such as v0.1.0
	Commit   string    // full hash
	Time     time.Time // of the commit: the only time in a release
	Registry string    // host and path, without a trailing slash
}

// Validate returns an error for an invalid version or registry.
func (r release) Validate() error {
	switch {
	case semver.Canonical(r.Version) != r.Version || r.Version == "":
		return fmt.Errorf("VERSION is %q: name it as v0.1.0 or v0.1.0-rc.1, in full and without build metadata, which tags of images cannot have", r.Version)
	case r.Registry != strings.ToLower(r.Registry), strings.Contains(r.Registry, "://"), strings.HasSuffix(r.Registry, "/"):
		return fmt.Errorf("REGISTRY is %q: name it as registry.example.com/path, in small letters, without a scheme and without a slash at the end", r.Registry)
	}
	return nil
}

// Number returns the version for charts and tags of images, such as 0.1.0.
func (r release) Number() string { return strings.TrimPrefix(r.Version, "v") }

// Image returns the repository of the image with all Go binaries of a cluster.
func (r release) Image() string { return r.Registry + "/rouse" }

// RuntimeImage returns the repository of a runtime's image.
func (r release) RuntimeImage(runtime string) string { return r.Registry + "/rouse-runtime-" + runtime }

// ChartRepository returns the path of the chart: oci:// followed by this and /rouse.
func (r release) ChartRepository() string { return r.Registry + "/charts" }

// Flags returns the linker flags that set a binary's version.
func (r release) Flags() string {
	const daemon = "github.com/rouse-run/rouse/internal/daemon."
	return fmt.Sprintf("-s -w -buildid= -X %sversion=%s -X %scommit=%s -X %sdate=%s",
		daemon, r.Version, daemon, r.Commit, daemon, r.Time.UTC().Format(time.RFC3339))
}

// serverPlatforms are the platforms of the images.
func serverPlatforms() []v1.Platform {
	return []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
}

// commandPlatforms are the platforms of the command line.
func commandPlatforms() []v1.Platform {
	return append(serverPlatforms(), v1.Platform{OS: "darwin", Architecture: "amd64"}, v1.Platform{OS: "darwin", Architecture: "arm64"})
}

// Archive returns the file name of the command line's archive for a platform.
func (r release) Archive(platform v1.Platform) string {
	return "rouse_" + r.suffix(platform) + ".tar.gz"
}

// ImageSBOM returns the file name of the software bill of materials of an image for a platform.
func (r release) ImageSBOM(image string, platform v1.Platform) string {
	return image + "_image_" + r.suffix(platform) + ".spdx.json"
}

// ArchiveSBOM returns the same for an archive.
func (r release) ArchiveSBOM(platform v1.Platform) string {
	return "rouse_" + r.suffix(platform) + ".spdx.json"
}

// Chart returns the file name of the packed chart.
func (r release) Chart() string { return "rouse-" + r.Number() + ".tgz" }

func (r release) suffix(platform v1.Platform) string {
	return fmt.Sprintf("%s_%s_%s", r.Number(), platform.OS, platform.Architecture)
}

// Names of the files that are the same in every release. The images are in a folder, an OCI layout.
const (
	imagesFolder   = "images"
	imageListFile  = "images.txt"
	crdsFile       = "crds.yaml"
	manifestFile   = "install.yaml"
	scriptFile     = "install.sh"
	krewFile       = "krew.yaml"
	homebrewFile   = "rouse.rb"
	provenanceFile = "provenance.intoto.json"
	checksumsFile  = "SHA256SUMS"
)

// checkout is a clone of the repository.
type checkout struct{ Dir string }

// commit is the commit of a release.
type commit struct {
	ID   string
	Time time.Time
}

// Head returns the checked-out commit. It returns an error for uncommitted changes, and for a tag of the version that
// refers to another commit.
func (c checkout) Head(ctx context.Context, version string) (commit, error) {
	changed, err := c.git(ctx, "status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	if changed != "" {
		files := strings.Split(changed, "\n")
		return commit{}, fmt.Errorf("%d files are not committed (%s): commit them or put them away, a release is made of one commit", len(files), strings.TrimSpace(files[0]))
	}
	head, err := c.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return commit{}, err
	}
	id, seconds, _ := strings.Cut(head, " ")
	when, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("read the commit's time: %w", err)
	}
	tagged, err := c.git(ctx, "tag", "--list", "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)", version)
	if err != nil {
		return commit{}, err
	}
	if tagged != "" && tagged != id {
		return commit{}, fmt.Errorf("the tag %s is there and names commit %.12s, not %.12s: check that one out, or choose the next version", version, tagged, id)
	}
	return commit{ID: id, Time: time.Unix(when, 0).UTC()}, nil
}

// Export writes the files of a commit into a directory.
func (c checkout) Export(ctx context.Context, commit commit, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := filepath.Join(dir, ".source.tar")
	if _, err := c.git(ctx, "archive", "--format=tar", "--output="+archive, commit.ID); err != nil {
		return err
	}
	if _, err := (program{Dir: dir}).Run(ctx, "tar", "-xf", archive); err != nil {
		return err
	}
	return os.Remove(archive)
}

func (c checkout) git(ctx context.Context, args ...string) (string, error) {
	out, err := program{Dir: c.Dir}.Run(ctx, "git", args...)
	return strings.TrimSpace(out), err
}

// program runs external programs.
type program struct {
	Dir string
	Env []string // in addition to this process's
}

// killDelay is the time that a program has to end after an interrupt.
const killDelay = 10 * time.Second

// Run returns the output of the program.
func (p program) Run(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env, command.WaitDelay = p.Dir, append(os.Environ(), p.Env...), killDelay
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}
