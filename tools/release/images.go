package main

import (
	"context"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rouse-run/rouse/tools/pack"
)

// user is the user of the servers' image, which no node has.
const user = "65532:65532"

// Files of the source tree: Rouse's licence, and those of the dependencies, which licences writes.
const (
	licence = "LICENSE"
	notices = "THIRD_PARTY_NOTICES"
)

// licences collects the licences of all compiled dependencies into the source tree. An unknown or disallowed licence is
// an error.
func (m *maker) licences(ctx context.Context) error {
	m.progress("collect the licences of what is compiled in")
	collect := program{Dir: filepath.Join(m.source, "tools", "supply"), Env: []string{"GOFLAGS=", "GOWORK=off"}}
	_, err := collect.Run(ctx, "go", "run", "./licenses", "-C", m.source, "-o", filepath.Join(m.source, notices), "./cmd/...")
	return err
}

// servers makes the image with all Go binaries of a cluster.
func (m *maker) servers(ctx context.Context) error {
	compiler := compiler{Source: m.source, Flags: m.release.Flags()}
	var images []pack.ForPlatform
	for _, platform := range serverPlatforms() {
		m.progress("compile the servers for %s/%s", platform.OS, platform.Architecture)
		dir := filepath.Join(m.work, "servers-"+platform.Architecture)
		names, err := compiler.Servers(ctx, platform, dir)
		if err != nil {
			return err
		}
		var files []pack.File
		var binaries []string
		for _, name := range names {
			binaries = append(binaries, filepath.Join(dir, name))
			files = append(files, pack.File{Path: "/" + name, Source: filepath.Join(dir, name)})
		}
		for _, name := range []string{licence, notices} {
			files = append(files, pack.File{Path: "/licenses/" + name, Source: filepath.Join(m.source, name), Mode: 0o644})
		}
		built, err := m.image(platform, v1.Config{User: user, Labels: m.labels("Rouse")}, dir+".tar", files)
		if err != nil {
			return err
		}
		images = append(images, pack.ForPlatform{Platform: platform, Image: built})
		if err := m.list(m.release.ImageSBOM("rouse", platform), m.release.Image(), nil, binaries...); err != nil {
			return err
		}
	}
	return m.keep(m.release.Image(), pack.Index(images...))
}

func (m *maker) image(platform v1.Platform, config v1.Config, file string, files []pack.File) (v1.Image, error) {
	if err := pack.Files(file, files); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(file, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	return pack.Build(platform, config, layer)
}

// runtimes makes the images of the runtimes from their bases.
func (m *maker) runtimes(ctx context.Context) error {
	runtimes := runtimeMaker{
		Source: m.source, Work: filepath.Join(m.work, "runtimes"), Labels: m.labels("A runtime of Rouse"),
		Native: v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH},
	}
	for _, base := range m.bases {
		m.progress("make the image of %s upon %s@%.19s", base.Runtime, base.Name, base.Digest)
		made, err := runtimes.Make(ctx, base, serverPlatforms())
		if err != nil {
			return err
		}
		if err := m.keep(m.release.RuntimeImage(base.Runtime), made); err != nil {
			return err
		}
		described, err := describeRuntime(m.source, base.Runtime)
		if err != nil {
			return err
		}
		contents, err := runtimePackages(described.Dir)
		if err != nil {
			return err
		}
		contents = append(contents, component{Name: base.Name, Version: base.Digest.String()})
		for _, platform := range serverPlatforms() {
			if err := m.list(m.release.ImageSBOM("rouse-runtime-"+base.Runtime, platform), m.release.RuntimeImage(base.Runtime), contents); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *maker) labels(title string) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": title, prefix + "version": m.release.Version, prefix + "revision": m.release.Commit,
		prefix + "source": projectURL, prefix + "licenses": "Apache-2.0", prefix + "description": "Functions on Kubernetes that sleep at zero and wake on the first event",
	}
}
