package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"
)

// other is an image in a chart's values that the release does not make: one with a tag of its own.
type other struct {
	reference string
	tag       *yaml.Node
}

// Others are the references of the images that a chart names and a release does not make, in their order.
func Others(dir string) ([]string, error) {
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
	return below(&root), nil
}

func below(node *yaml.Node) []other {
	if node.Kind == yaml.MappingNode {
		repository, tag := field(node, "repository"), field(node, "tag")
		if repository != nil && tag != nil && tag.Value != "" {
			return []other{{reference: repository.Value + ":" + tag.Value, tag: tag}}
		}
	}
	var found []other
	for _, each := range node.Content {
		found = append(found, below(each)...)
	}
	return found
}

func field(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// ReadOthers reads a JSON file with the digests of images by their references.
func ReadOthers(file string) (Digests, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("IMAGES: %w", err)
	}
	var digests Digests
	if err := json.Unmarshal(text, &digests); err != nil {
		return nil, fmt.Errorf("IMAGES: %s is no map of references to digests: %w", file, err)
	}
	for reference, digest := range digests {
		if _, err := v1.NewHash(digest); err != nil {
			return nil, fmt.Errorf("IMAGES: %s has %q for %s: name a digest, as sha256 with 64 hexadecimal digits", file, digest, reference)
		}
	}
	return digests, nil
}

// RequireOthers reports the images of a chart whose digests are missing, and digests of images that it does not have.
func RequireOthers(dir string, digests Digests) error {
	references, err := Others(dir)
	if err != nil {
		return err
	}
	for _, reference := range references {
		if digests[reference] == "" {
			return fmt.Errorf("IMAGES has no digest of %s, so that whoever may move that tag would decide what the released chart runs: "+
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

// pinOthers adds digests to tags. Who sets a tag of their own so takes the digest away with it, and a mirror needs its repository alone.
func pinOthers(file string, digests Digests) error {
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
