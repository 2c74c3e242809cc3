package deploy

import (
	"context"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// contextLines is the number of equal lines around a difference.
const contextLines = 3

// Diff returns what applying an object would change, as a unified diff of its YAML; empty when nothing would. Values of Secrets are masked.
func (c Change) Diff() (string, error) {
	next := c.Next
	if next == nil { // its namespace does not exist yet
		next = c.Object.Unstructured
	}
	return diff(c.Object.Ref(), c.Live, next)
}

// diff returns the difference of two states of an object, of which one may be nil.
func diff(ref Ref, live, next *unstructured.Unstructured) (string, error) {
	before, after := map[string]any{}, map[string]any{}
	if live != nil {
		before = withoutServerFields(live)
	}
	if next != nil {
		after = withoutServerFields(next)
	}
	if ref.Kind == kindSecret {
		mask(before, after)
	}
	old, err := lines(before)
	if err != nil {
		return "", err
	}
	changed, err := lines(after)
	if err != nil {
		return "", err
	}
	name := ref.String()
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: old, B: changed, FromFile: "cluster/" + name, ToFile: "folder/" + name, Context: contextLines,
	})
	if err != nil {
		return "", fmt.Errorf("compare %s: %w", ref, err)
	}
	return text, nil
}

// lines returns the lines of an object's YAML, none for an empty one.
func lines(object map[string]any) ([]string, error) {
	if len(object) == 0 {
		return nil, nil
	}
	content, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write an object as YAML: %w", err)
	}
	all := strings.SplitAfter(string(content), "\n")
	return all[:len(all)-1], nil // the last line ends, too
}

// DiffLeftovers returns the diffs of what a deploy would prune.
func (d *Deployment) DiffLeftovers(ctx context.Context) ([]string, error) {
	left, err := d.Leftovers(ctx)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, ref := range left {
		live, err := d.Cluster.Get(ctx, ref.resource(), ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		text, err := diff(ref, live, nil)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}
