package plan

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/semver"
)

// DefaultRegistry is where images and the chart are when none is named.
const DefaultRegistry = "ghcr.io/rouse-run"

// Repository is where the source is.
const Repository = "https://github.com/rouse-run/rouse"

// Release is what all parts of a release have in common.
type Release struct {
	Version  string    // of the tag, v0.1.0
	Commit   string    // in full
	Time     time.Time // of the commit: the only time that a release knows
	Registry string    // host and path, without a slash at the end
}

// Validate reports a version or a registry that a release cannot have.
func (r Release) Validate() error {
	switch {
	case semver.Canonical(r.Version) != r.Version || r.Version == "":
		return fmt.Errorf("VERSION is %q: name it as v0.1.0 or v0.1.0-rc.1, in full and without build metadata, which tags of images cannot have", r.Version)
	case r.Registry != strings.ToLower(r.Registry), strings.Contains(r.Registry, "://"), strings.HasSuffix(r.Registry, "/"):
		return fmt.Errorf("REGISTRY is %q: name it as registry.example.com/path, in small letters, without a scheme and without a slash at the end", r.Registry)
	}
	return nil
}

// Number is the version as charts and tags of images have it, 0.1.0.
func (r Release) Number() string { return strings.TrimPrefix(r.Version, "v") }

// Image is the repository of the image with all Go binaries of a cluster.
func (r Release) Image() string { return r.Registry + "/rouse" }

// RuntimeImage is the repository of a runtime's image.
func (r Release) RuntimeImage(runtime string) string { return r.Registry + "/rouse-runtime-" + runtime }

// ChartRepository is where the chart is: oci:// followed by this and /rouse.
func (r Release) ChartRepository() string { return r.Registry + "/charts" }

// Flags are the linker's, by which a binary knows what it is.
func (r Release) Flags() string {
	const daemon = "github.com/rouse-run/rouse/internal/daemon."
	return fmt.Sprintf("-s -w -buildid= -X %sversion=%s -X %scommit=%s -X %sdate=%s",
		daemon, r.Version, daemon, r.Commit, daemon, r.Time.UTC().Format(time.RFC3339))
}

// ServerPlatforms are those of the images.
func ServerPlatforms() []v1.Platform {
	return []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
}

// CommandPlatforms are those of the command line.
func CommandPlatforms() []v1.Platform {
	return append(ServerPlatforms(), v1.Platform{OS: "darwin", Architecture: "amd64"}, v1.Platform{OS: "darwin", Architecture: "arm64"})
}

// Archive is the file name of the command line's archive for a platform.
func (r Release) Archive(platform v1.Platform) string {
	return "rouse_" + r.suffix(platform) + ".tar.gz"
}

// ImageSBOM is the file name of the list of what is in an image for a platform.
func (r Release) ImageSBOM(image string, platform v1.Platform) string {
	return image + "_image_" + r.suffix(platform) + ".spdx.json"
}

// ArchiveSBOM is the same for an archive.
func (r Release) ArchiveSBOM(platform v1.Platform) string {
	return "rouse_" + r.suffix(platform) + ".spdx.json"
}

// Chart is the file name of the packed chart.
func (r Release) Chart() string { return "rouse-" + r.Number() + ".tgz" }

func (r Release) suffix(platform v1.Platform) string {
	return fmt.Sprintf("%s_%s_%s", r.Number(), platform.OS, platform.Architecture)
}

// Names of the files that are the same in every release. Images is a folder, an OCI layout.
const (
	Images     = "images"
	ImageList  = "images.txt"
	CRDs       = "crds.yaml"
	Manifest   = "install.yaml"
	Script     = "install.sh"
	Krew       = "krew.yaml"
	Homebrew   = "rouse.rb"
	Provenance = "provenance.intoto.json"
	Checksums  = "SHA256SUMS"
)
