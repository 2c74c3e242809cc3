package rouse

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

// refName is the annotation with the name of an image in an OCI layout.
const refName = "org.opencontainers.image.ref.name"

// native is the architecture of the local cluster; foreign is the other architecture of a release's images, whose files
// cannot be run or configured here.
const (
	native  = "amd64"
	foreign = "arm64"
)

// Bases writes the base images of the runtimes into a directory, as an OCI layout with an index named after each
// runtime. Releases use them if they cannot access the languages' official images.
func (s Source) Bases(ctx context.Context, runtimes []Runtime, dir string) error {
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("make the folder of bases: %w", err)
	}
	for _, runtime := range runtimes {
		var images []pack.ForPlatform
		for _, architecture := range []string{native, foreign} {
			platform := v1.Platform{OS: "linux", Architecture: architecture}
			layers, err := s.baseLayers(ctx, runtime, architecture)
			if err != nil {
				return fmt.Errorf("make the base of %s for %s: %w", runtime.Name, architecture, err)
			}
			built, err := pack.Build(platform, v1.Config{Env: []string{searchPath}}, asLayers(layers)...)
			if err != nil {
				return err
			}
			images = append(images, pack.ForPlatform{Platform: platform, Image: built})
		}
		if err := written.AppendIndex(pack.Index(images...), layout.WithAnnotations(map[string]string{refName: runtime.Name})); err != nil {
			return fmt.Errorf("write the base of %s: %w", runtime.Name, err)
		}
	}
	return nil
}

func (s Source) baseLayers(ctx context.Context, runtime Runtime, architecture string) ([]image.Layer, error) {
	base, err := s.base(ctx, runtime)
	if err != nil {
		return nil, err
	}
	layers, _, err := s.language(ctx, runtime, base)
	if err != nil || architecture == native {
		return layers, err
	}
	// Package managers are scripts and do not depend on the architecture.
	if layers[0], err = s.foreignDebian(ctx, runtime, base); err != nil {
		return nil, err
	}
	switch {
	case runtime.NodeJS != "":
		layers[1], err = s.foreignNode(ctx, runtime.NodeJS)
	case runtime.Go != "":
		layers[1], err = s.foreignGo(ctx, runtime.Go)
	case runtime.Python != nil:
		layers[1], err = s.foreignPython(ctx, runtime)
	}
	return layers, err
}

// foreignDebian unpacks packages without configuring them, which would run their programs; the files that the
// configuration writes into /etc are copied from the native layer.
func (s Source) foreignDebian(ctx context.Context, runtime Runtime, base image.Layer) (image.Layer, error) {
	unpacked, err := s.Store.Debian(ctx, s.Logs, runtime.Kind+"-"+foreign, runtime.Suite, basePackages(runtime),
		"--include=?essential", "--variant=extract", "--architectures="+foreign)
	if err != nil {
		return image.Layer{}, err
	}
	name := "base-" + runtime.Suite + "-" + runtime.Kind + "-" + foreign
	return s.made(name, []image.Layer{unpacked, base}, func(work string) error {
		for _, step := range [][]string{
			{"-xf", base.File(), "-C", work, "./etc"},
			{"-xf", unpacked.File(), "-C", work, "--skip-old-files", "--exclude=./dev/*"},
		} {
			if _, err := (command.Command{Name: "tar", Args: step, Log: filepath.Join(s.Logs, name+".log")}).Run(ctx); err != nil {
				return err
			}
		}
		return os.RemoveAll(filepath.Join(work, "etc", "ld.so.cache")) // belongs to the native architecture
	})
}

// made returns a layer of the files that write puts into a directory. Its key consists of its inputs.
func (s Source) made(name string, of []image.Layer, write func(dir string) error) (image.Layer, error) {
	var key []string
	for _, layer := range of {
		digest, err := layer.Digest()
		if err != nil {
			return image.Layer{}, err
		}
		key = append(key, digest.Hex)
	}
	return s.Store.Layer(name, state.Key(key...), func(file string) error {
		work, remove, err := s.Store.Cache.Temporary(name)
		if err != nil {
			return err
		}
		defer remove()
		if err := write(work); err != nil {
			return err
		}
		return pack.Dir(file, work)
	})
}

func (s Source) foreignNode(ctx context.Context, version string) (image.Layer, error) {
	const name = "node-linux-" + foreign
	dir, _, err := s.Store.Cache.Named("node-"+foreign, version, func(temporary string) error {
		return s.fromNPM(ctx, temporary, name+"@"+version, "--force") // for another CPU
	})
	if err != nil {
		return image.Layer{}, err
	}
	return s.nodeLayer(version, foreign, filepath.Join(dir, "node_modules", name, "bin", "node"))
}

// foreignGo returns the toolchain from the module proxy, which has one for each platform.
func (s Source) foreignGo(ctx context.Context, version string) (image.Layer, error) {
	download := command.Command{
		Name: "go", Args: []string{"mod", "download", "-json", "golang.org/toolchain@v0.0.1-go" + version + ".linux-" + foreign},
		Dir: s.Logs, Env: []string{"GOFLAGS=-mod=mod", "GO111MODULE=on", "GOTOOLCHAIN=local"}, Log: filepath.Join(s.Logs, "go-"+foreign+".log"),
	}
	printed, err := download.Run(ctx)
	if err != nil {
		return image.Layer{}, fmt.Errorf("fetch Go %s for %s: %w", version, foreign, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal([]byte(printed), &found); err != nil {
		return image.Layer{}, fmt.Errorf("fetch Go %s for %s: %w", version, foreign, err)
	}
	return s.goTree(version, foreign, found.Dir)
}

// foreignPython combines the programs and libraries of its own archive with bytecode and pip of the native one, which
// are equal.
func (s Source) foreignPython(ctx context.Context, runtime Runtime) (image.Layer, error) {
	builder := components.Builder{Repository: s.Repository, Cache: s.Store.Cache, Logs: s.Logs}
	built, err := builder.Build(ctx, components.Component{Name: "python" + runtime.Python.Minor, CPython: runtime.Python})
	if err != nil {
		return image.Layer{}, err
	}
	name := built.Name + "-" + foreign
	return s.Store.Layer(name, built.Key, func(file string) error {
		work, remove, err := s.Store.Cache.Temporary(name)
		if err != nil {
			return err
		}
		defer remove()
		if err := runtime.Python.Foreign(ctx, foreign, built.Dir, filepath.Join(work, components.Prefix), filepath.Join(s.Logs, name+".log")); err != nil {
			return err
		}
		return pack.Dir(file, work)
	})
}

func asLayers(layers []image.Layer) []v1.Layer {
	converted := make([]v1.Layer, len(layers))
	for i, layer := range layers {
		converted[i] = layer
	}
	return converted
}
