package runtimeimage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rouse-run/rouse/tools/pack"
	"github.com/rouse-run/rouse/tools/release/bases"
	"github.com/rouse-run/rouse/tools/release/program"
)

// Maker makes images from a source tree.
type Maker struct {
	Source string
	Work   string      // an empty directory for what is made on the way
	Native v1.Platform // whose programs run here
	Labels map[string]string
}

// Make makes the image of a runtime for platforms.
func (m Maker) Make(ctx context.Context, base bases.Base, platforms []v1.Platform) (v1.ImageIndex, error) {
	described, err := Describe(m.Source, base.Runtime)
	if err != nil {
		return nil, err
	}
	native, err := base.Image(m.Native)
	if err != nil {
		return nil, err
	}
	interpreter, err := unpack(ctx, native, described, filepath.Join(m.Work, base.Runtime, "base"))
	if err != nil {
		return nil, fmt.Errorf("unpack the base of %s: %w", base.Runtime, err)
	}
	var made []pack.ForPlatform
	for _, platform := range platforms {
		built, err := m.forPlatform(ctx, base, described, interpreter, platform)
		if err != nil {
			return nil, fmt.Errorf("make the image of %s for %s/%s: %w", base.Runtime, platform.OS, platform.Architecture, err)
		}
		made = append(made, pack.ForPlatform{Platform: platform, Image: built})
	}
	return pack.Index(made...), nil
}

func (m Maker) forPlatform(ctx context.Context, base bases.Base, described Description, interpreter string, platform v1.Platform) (v1.Image, error) {
	below, err := base.Image(platform)
	if err != nil {
		return nil, err
	}
	if err := checkMachine(below, described, platform); err != nil {
		return nil, err
	}
	work := filepath.Join(m.Work, base.Runtime, platform.Architecture)
	tree := filepath.Join(work, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return nil, err
	}
	fill := program.Program{Dir: m.Source, Env: []string{"TARGETARCH=" + platform.Architecture}}
	if _, err := fill.Run(ctx, filepath.Join(described.Dir, "layer.sh"), tree, interpreter); err != nil {
		return nil, err
	}
	files, err := pack.Tree(tree)
	if err != nil {
		return nil, err
	}
	packed := filepath.Join(work, "layer.tar")
	if err := pack.Files(packed, files); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(packed, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	file, err := below.ConfigFile()
	if err != nil {
		return nil, err
	}
	return pack.Extend(below, platform, m.config(described, file.Config), layer)
}

// config is the base's with what the runtime says.
func (m Maker) config(described Description, config v1.Config) v1.Config {
	config.Entrypoint, config.Cmd, config.WorkingDir, config.User = described.Entrypoint, nil, described.Workdir, described.User
	config.Env = slices.Clone(config.Env)
	for _, name := range slices.Sorted(maps.Keys(described.Env)) {
		config.Env = append(config.Env, name+"="+described.Env[name])
	}
	if described.Port != 0 {
		config.ExposedPorts = map[string]struct{}{fmt.Sprintf("%d/tcp", described.Port): {}}
	}
	labels := maps.Clone(config.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, m.Labels)
	config.Labels = labels
	return config
}
