package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v3"

	"github.com/rouse-run/rouse/tools/pack"
)

// imageDigests maps the names of images without registry to their digests.
type imageDigests map[string]string

// pinChart writes into a chart's directory the version of a release, its registry, the digests of its images, and those
// of third-party images by their references. It removes runtimes without an image. Comments stay.
func pinChart(dir string, release release, digests, others imageDigests) error {
	if err := pinOthers(filepath.Join(dir, "values.yaml"), others); err != nil {
		return err
	}
	err := editLines(filepath.Join(dir, "Chart.yaml"), map[string]string{
		"version:":    "version: " + release.Number(),
		"appVersion:": "appVersion: " + release.Number(),
	})
	if err != nil {
		return err
	}
	offered, err := offeredRuntimes(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return err
	}
	lines := map[string]string{}
	for _, runtime := range offered {
		if _, ok := digests["rouse-runtime-"+runtime]; !ok {
			lines["  "+runtime+": "] = "  " + runtime + ": null # not in this release"
		}
	}
	var pins strings.Builder
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintf(&pins, "\n    %s: %s", name, digests[name])
	}
	lines["  repository: "+defaultRegistry+"/rouse"] = "  repository: " + release.Image()
	lines["  digests: {}"] = "  digests:                    # of the images of this release. They hold while tag is empty" + pins.String()
	return editLines(filepath.Join(dir, "values.yaml"), lines)
}

// offeredRuntimes returns the runtimes in a chart.
func offeredRuntimes(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	var values struct{ Runtimes map[string]any }
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("read the chart's values: %w", err)
	}
	return slices.Sorted(maps.Keys(values.Runtimes)), nil
}

// editLines replaces the lines with the given beginnings. Each has to occur exactly once.
func editLines(file string, lines map[string]string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	text := strings.Split(string(content), "\n")
	for before, after := range lines {
		var found []int
		for i, line := range text {
			if strings.HasPrefix(line, before) {
				found = append(found, i)
			}
		}
		if len(found) != 1 {
			return fmt.Errorf("%s has %d lines that begin with %q, where a release expects one", filepath.Base(file), len(found), before)
		}
		text[found[0]] = after
	}
	return os.WriteFile(file, []byte(strings.Join(text, "\n")), 0o644)
}

// other is a third-party image in a chart's values, with a tag of its own.
type other struct {
	reference string
	tag       *yaml.Node
}

// otherImages returns the references of a chart's third-party images, in their order.
func otherImages(dir string) ([]string, error) {
	found, err := othersIn(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	var references []string
	for _, each := range found {
		references = append(references, each.reference)
	}
	return references, nil
}

func othersIn(file string) ([]other, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("read the chart's values: %w", err)
	}
	return imagesBelow(&root), nil
}

func imagesBelow(node *yaml.Node) []other {
	if node.Kind == yaml.MappingNode {
		repository, tag := yamlField(node, "repository"), yamlField(node, "tag")
		if repository != nil && tag != nil && tag.Value != "" {
			return []other{{reference: repository.Value + ":" + tag.Value, tag: tag}}
		}
	}
	var found []other
	for _, each := range node.Content {
		found = append(found, imagesBelow(each)...)
	}
	return found
}

func yamlField(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// readOthers reads a JSON file that maps references of images to digests.
func readOthers(file string) (imageDigests, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("IMAGES: %w", err)
	}
	var digests imageDigests
	if err := json.Unmarshal(text, &digests); err != nil {
		return nil, fmt.Errorf("IMAGES: %s is not a map of references to digests: %w", file, err)
	}
	for reference, digest := range digests {
		if _, err := v1.NewHash(digest); err != nil {
			return nil, fmt.Errorf("IMAGES: %s has %q for %s: name a digest, as sha256 with 64 hexadecimal digits", file, digest, reference)
		}
	}
	return digests, nil
}

// requireOthers reports images of a chart without a digest, and digests of images that the chart does not contain.
func requireOthers(dir string, digests imageDigests) error {
	references, err := otherImages(dir)
	if err != nil {
		return err
	}
	for _, reference := range references {
		if digests[reference] == "" {
			return fmt.Errorf("IMAGES has no digest of %s, so that any account that may move the tag could change the images of the released chart: "+
				"write the file with make official-images", reference)
		}
	}
	for _, reference := range slices.Sorted(maps.Keys(digests)) {
		if !slices.Contains(references, reference) {
			return fmt.Errorf("IMAGES has a digest of %s, which the chart does not name: write the file again with make official-images", reference)
		}
	}
	return nil
}

// pinOthers adds digests to tags. A user who sets another tag thereby removes the digest, and a mirror only needs
// another repository.
func pinOthers(file string, digests imageDigests) error {
	found, err := othersIn(file)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	lines := bytes.Split(content, []byte("\n"))
	for _, each := range found {
		digest := digests[each.reference]
		if digest == "" {
			continue
		}
		at := each.tag.Line - 1
		before, after := string(lines[at][:each.tag.Column-1]), string(lines[at][each.tag.Column-1:])
		pinned := strings.Replace(after, each.tag.Value, each.tag.Value+"@"+digest, 1)
		if pinned == after {
			return fmt.Errorf("line %d of %s has no tag %s", each.tag.Line, filepath.Base(file), each.tag.Value)
		}
		lines[at] = []byte(before + pinned)
	}
	return os.WriteFile(file, bytes.Join(lines, []byte("\n")), 0o644)
}

// Media types of a chart in a registry, from Helm's documentation of OCI support.
const (
	configType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	contentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// packChart writes a chart's directory to a file like helm package, but without times.
func packChart(dir, file string) error {
	files, err := pack.Tree(dir)
	if err != nil {
		return fmt.Errorf("list the chart: %w", err)
	}
	var packed []pack.File
	for _, each := range files {
		if each.Source == "" || filepath.Base(each.Path) == ".helmignore" {
			continue
		}
		each.Path, each.Mode = "/rouse"+each.Path, 0o644
		packed = append(packed, each)
	}
	return writeArchive(file, packed)
}

// chartImage returns a packed chart as an OCI image. Its metadata comes from the chart's directory.
func chartImage(dir, file string, created time.Time) (v1.Image, error) {
	text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	var metadata map[string]any
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return nil, fmt.Errorf("read Chart.yaml: %w", err)
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the packed chart: %w", err)
	}
	packed, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(content, contentType))
	if err != nil {
		return nil, err
	}
	annotated, _ := mutate.Annotations(packed, map[string]string{
		"org.opencontainers.image.title":       fmt.Sprint(metadata["name"]),
		"org.opencontainers.image.version":     fmt.Sprint(metadata["version"]),
		"org.opencontainers.image.description": fmt.Sprint(metadata["description"]),
		"org.opencontainers.image.source":      fmt.Sprint(metadata["home"]),
		"org.opencontainers.image.created":     created.UTC().Format(time.RFC3339),
	}).(v1.Image)
	return withConfig{Image: annotated, config: config}, nil
}

// withConfig is an image whose configuration is a chart's metadata, without layers.
type withConfig struct {
	v1.Image

	config []byte
}

// RawConfigFile implements v1.Image.
func (w withConfig) RawConfigFile() ([]byte, error) { return w.config, nil }

// ConfigName implements v1.Image.
func (w withConfig) ConfigName() (v1.Hash, error) {
	sum := sha256.Sum256(w.config)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, nil
}

// Manifest implements v1.Image.
func (w withConfig) Manifest() (*v1.Manifest, error) {
	plain, err := w.Image.Manifest()
	if err != nil {
		return nil, err
	}
	manifest := plain.DeepCopy()
	name, err := w.ConfigName()
	if err != nil {
		return nil, err
	}
	manifest.Config.MediaType, manifest.Config.Digest, manifest.Config.Size = configType, name, int64(len(w.config))
	return manifest, nil
}

// RawManifest implements v1.Image.
func (w withConfig) RawManifest() ([]byte, error) {
	manifest, err := w.Manifest()
	if err != nil {
		return nil, err
	}
	return json.Marshal(manifest)
}

// Digest implements v1.Image.
func (w withConfig) Digest() (v1.Hash, error) { return partial.Digest(w) }

// Size implements v1.Image.
func (w withConfig) Size() (int64, error) { return partial.Size(w) }

// LayerByDigest implements v1.Image.
func (w withConfig) LayerByDigest(digest v1.Hash) (v1.Layer, error) {
	if name, err := w.ConfigName(); err == nil && name == digest {
		return partial.ConfigLayer(w)
	}
	return w.Image.LayerByDigest(digest)
}
