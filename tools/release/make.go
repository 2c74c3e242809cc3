package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
)

// refName is the annotation with the name of an image in an OCI layout.
const refName = "org.opencontainers.image.ref.name"

// maker builds a release from the source tree of a commit.
type maker struct {
	release  release
	source   string
	work     string // for intermediate files
	out      string
	bases    []runtimeBase
	others   imageDigests // of the chart's third-party images
	progress func(format string, args ...any)

	images    layout.Path
	artifacts []artifact
	digests   imageDigests
	sboms     int
}

// make builds all parts.
func (m *maker) make(ctx context.Context) (err error) {
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return err
	}
	if m.images, err = layout.Write(filepath.Join(m.out, imagesFolder), empty.Index); err != nil {
		return fmt.Errorf("make the folder of images: %w", err)
	}
	m.digests = imageDigests{}
	for _, step := range []func(context.Context) error{m.licences, m.servers, m.runtimes, m.commandLine, m.chart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return m.documents()
}

// keep adds an image to the layout, and records it for the registry and the chart.
func (m *maker) keep(repository string, index v1.ImageIndex) error {
	name := filepath.Base(repository)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	err = m.images.ReplaceIndex(index, match.Name(name), layout.WithAnnotations(map[string]string{refName: name}))
	if err != nil {
		return fmt.Errorf("keep the image %s: %w", name, err)
	}
	m.digests[name] = digest.String()
	m.artifacts = append(m.artifacts, artifact{Repository: repository, Tag: m.release.Number(), Content: index})
	return nil
}

// commandLine makes the archives of rouse, and the manifests of package managers with their checksums.
func (m *maker) commandLine(ctx context.Context) error {
	compiler := compiler{Source: m.source, Flags: m.release.Flags()}
	native := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	binary := func(platform v1.Platform) string {
		return filepath.Join(m.work, "rouse-"+platform.OS+"-"+platform.Architecture, commandLine)
	}
	for _, platform := range commandPlatforms() {
		m.progress("compile rouse for %s/%s", platform.OS, platform.Architecture)
		if err := compiler.Command(ctx, platform, filepath.Dir(binary(platform))); err != nil {
			return err
		}
	}
	extras := filepath.Join(m.work, "extras")
	if err := writeExtras(ctx, binary(native), extras); err != nil {
		return err
	}
	var archives []commandArchive
	for _, platform := range commandPlatforms() {
		file := filepath.Join(m.out, m.release.Archive(platform))
		if err := packCommandLine(file, binary(platform), extras, m.source, licence, notices, "README.md"); err != nil {
			return err
		}
		sum, err := sumFile(file)
		if err != nil {
			return err
		}
		archives = append(archives, commandArchive{Platform: platform, File: filepath.Base(file), SHA256: sum})
		if err := m.list(m.release.ArchiveSBOM(platform), filepath.Base(file), nil, binary(platform)); err != nil {
			return err
		}
	}
	return writeManifests(m.out, m.release, archives)
}

// chart packs the chart with the digests of the images, and renders it for installations without Helm.
func (m *maker) chart(context.Context) error {
	dir := filepath.Join(m.source, "charts", "rouse")
	if err := pinChart(dir, m.release, m.digests, m.others); err != nil {
		return err
	}
	file := filepath.Join(m.out, m.release.Chart())
	if err := packChart(dir, file); err != nil {
		return err
	}
	packed, err := chartImage(dir, file, m.release.Time)
	if err != nil {
		return fmt.Errorf("make an image of the chart: %w", err)
	}
	m.artifacts = append(m.artifacts, artifact{Repository: m.release.ChartRepository() + "/rouse", Tag: m.release.Number(), Content: packed})
	if err := writeManifest(dir, filepath.Join(m.out, manifestFile), m.release); err != nil {
		return err
	}
	return writeCRDs(dir, filepath.Join(m.out, crdsFile))
}

// same compares two releases by their checksums, which cover all files and, through the list of images, all images.
func same(one, two string) error {
	first, err := os.ReadFile(filepath.Join(one, checksumsFile))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(two, checksumsFile))
	if err != nil {
		return err
	}
	if different := difference(string(first), string(second)); len(different) > 0 {
		images, err := imagesThatDiffer(one, two)
		return errors.Join(fmt.Errorf("two builds of the same commit differ, so that the release is not reproducible: %s%s", strings.Join(different, ", "), images), err)
	}
	return nil
}

func imagesThatDiffer(one, two string) (string, error) {
	first, err := os.ReadFile(filepath.Join(one, imageListFile))
	if err != nil {
		return "", err
	}
	second, err := os.ReadFile(filepath.Join(two, imageListFile))
	if err != nil {
		return "", err
	}
	different := difference(string(first), string(second))
	if len(different) == 0 {
		return "", nil
	}
	return "; of the images: " + strings.Join(different, ", "), nil
}

// difference lists the lines of one text that the other one does not contain, each without the part before its last
// space.
func difference(one, two string) []string {
	known := map[string]bool{}
	for line := range strings.Lines(two) {
		known[line] = true
	}
	var different []string
	for line := range strings.Lines(one) {
		if !known[line] {
			fields := strings.Fields(line)
			different = append(different, fields[len(fields)-1])
		}
	}
	return different
}

// move renames a directory, or copies it to another file system.
func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	_, err := program{}.Run(context.Background(), "mv", "-T", from, to)
	return err
}
