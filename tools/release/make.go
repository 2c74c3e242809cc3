package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"

	"github.com/rouse-run/rouse/tools/release/archive"
	"github.com/rouse-run/rouse/tools/release/bases"
	"github.com/rouse-run/rouse/tools/release/chart"
	"github.com/rouse-run/rouse/tools/release/compile"
	"github.com/rouse-run/rouse/tools/release/install"
	"github.com/rouse-run/rouse/tools/release/manifest"
	"github.com/rouse-run/rouse/tools/release/plan"
	"github.com/rouse-run/rouse/tools/release/publish"
)

// refName is under which an OCI layout names what is in it.
const refName = "org.opencontainers.image.ref.name"

// maker makes a release from a source tree that is one commit.
type maker struct {
	release  plan.Release
	source   string
	work     string // for what is made on the way
	out      string
	bases    []bases.Base
	others   chart.Digests // of the chart's images that the release does not make
	progress func(format string, args ...any)

	images    layout.Path
	artifacts []publish.Artifact
	digests   chart.Digests
	sboms     int
}

// make makes all parts.
func (m *maker) make(ctx context.Context) (err error) {
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return err
	}
	if m.images, err = layout.Write(filepath.Join(m.out, plan.Images), empty.Index); err != nil {
		return fmt.Errorf("make the folder of images: %w", err)
	}
	m.digests = chart.Digests{}
	for _, step := range []func(context.Context) error{m.licences, m.servers, m.runtimes, m.commandLine, m.chart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return m.documents()
}

// keep puts an image into the layout and remembers it for the registry and the chart.
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
	m.artifacts = append(m.artifacts, publish.Artifact{Repository: repository, Tag: m.release.Number(), Content: index})
	return nil
}

// commandLine makes the archives of rouse, and with their checksums the manifests of package managers.
func (m *maker) commandLine(ctx context.Context) error {
	compiler := compile.Compiler{Source: m.source, Flags: m.release.Flags()}
	native := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	binary := func(platform v1.Platform) string {
		return filepath.Join(m.work, "rouse-"+platform.OS+"-"+platform.Architecture, compile.CommandLine)
	}
	for _, platform := range plan.CommandPlatforms() {
		m.progress("compile rouse for %s/%s", platform.OS, platform.Architecture)
		if err := compiler.Command(ctx, platform, filepath.Dir(binary(platform))); err != nil {
			return err
		}
	}
	extras := filepath.Join(m.work, "extras")
	if err := archive.Extras(ctx, binary(native), extras); err != nil {
		return err
	}
	var archives []install.Archive
	for _, platform := range plan.CommandPlatforms() {
		file := filepath.Join(m.out, m.release.Archive(platform))
		if err := archive.CommandLine(file, binary(platform), extras, m.source, licence, notices, "README.md"); err != nil {
			return err
		}
		sum, err := sumFile(file)
		if err != nil {
			return err
		}
		archives = append(archives, install.Archive{Platform: platform, File: filepath.Base(file), SHA256: sum})
		if err := m.list(m.release.ArchiveSBOM(platform), filepath.Base(file), nil, binary(platform)); err != nil {
			return err
		}
	}
	return install.Manifests(m.out, m.release, archives)
}

// chart packs the chart with the digests of the images, and renders it for those without Helm.
func (m *maker) chart(context.Context) error {
	dir := filepath.Join(m.source, "charts", "rouse")
	if err := chart.Pin(dir, m.release, m.digests, m.others); err != nil {
		return err
	}
	file := filepath.Join(m.out, m.release.Chart())
	if err := chart.Pack(dir, file); err != nil {
		return err
	}
	packed, err := chart.Image(dir, file, m.release.Time)
	if err != nil {
		return fmt.Errorf("make an image of the chart: %w", err)
	}
	m.artifacts = append(m.artifacts, publish.Artifact{Repository: m.release.ChartRepository() + "/rouse", Tag: m.release.Number(), Content: packed})
	if err := manifest.Write(dir, filepath.Join(m.out, plan.Manifest), m.release); err != nil {
		return err
	}
	return install.CRDs(dir, filepath.Join(m.out, plan.CRDs))
}
