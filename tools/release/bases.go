package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// runtimeBase is the base image of a runtime.
type runtimeBase struct {
	Runtime string
	Name    string // without the digest
	Digest  v1.Hash
	Index   v1.ImageIndex
}

// openBases returns the base images of runtimes in the order of the runtimes' names: from a directory with an OCI
// layout whose images are named after the runtimes, or from a JSON file that maps runtimes to references in registries,
// each with its digest.
func openBases(ctx context.Context, path string) ([]runtimeBase, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("BASES: %w", err)
	}
	if info.IsDir() {
		return fromLayout(path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("BASES: %w", err)
	}
	var references map[string]string
	if err := json.Unmarshal(content, &references); err != nil {
		return nil, fmt.Errorf("BASES: %s is not a map of runtimes to references: %w", path, err)
	}
	return fromRegistries(ctx, references)
}

func fromRegistries(ctx context.Context, references map[string]string) ([]runtimeBase, error) {
	var found []runtimeBase
	for _, runtime := range slices.Sorted(maps.Keys(references)) {
		reference, err := name.NewDigest(references[runtime])
		if err != nil {
			return nil, fmt.Errorf("the base of %s is %q: name it with its digest, as in docker.io/library/node:22-bookworm-slim@sha256:0123abcd", runtime, references[runtime])
		}
		index, err := remote.Index(reference, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return nil, fmt.Errorf("fetch the base of %s, which has to be an index of several platforms: %w", runtime, err)
		}
		digest, err := v1.NewHash(reference.DigestStr())
		if err != nil {
			return nil, err
		}
		found = append(found, runtimeBase{Runtime: runtime, Name: reference.Context().Name(), Digest: digest, Index: index})
	}
	return found, nil
}

func fromLayout(path string) ([]runtimeBase, error) {
	root, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("BASES: %s is not an OCI layout: %w", path, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("BASES: %w", err)
	}
	var found []runtimeBase
	for _, each := range manifest.Manifests {
		runtime := each.Annotations[refName]
		index, err := root.ImageIndex(each.Digest)
		if err != nil || runtime == "" {
			return nil, fmt.Errorf("BASES: %s in %s has to be an index of several platforms with the annotation %s", each.Digest, path, refName)
		}
		found = append(found, runtimeBase{Runtime: runtime, Name: "rouse-base-" + runtime, Digest: each.Digest, Index: index})
	}
	slices.SortFunc(found, func(one, two runtimeBase) int { return strings.Compare(one.Runtime, two.Runtime) })
	return found, nil
}

// Image returns the base image for a platform.
func (b runtimeBase) Image(platform v1.Platform) (v1.Image, error) {
	manifest, err := b.Index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the base of %s: %w", b.Runtime, err)
	}
	for _, each := range manifest.Manifests {
		if each.Platform != nil && each.Platform.OS == platform.OS && each.Platform.Architecture == platform.Architecture {
			return b.Index.Image(each.Digest)
		}
	}
	return nil, fmt.Errorf("the base of %s, %s@%s, is not there for %s/%s", b.Runtime, b.Name, b.Digest, platform.OS, platform.Architecture)
}
