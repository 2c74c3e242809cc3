package charts

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed rouse/files/crds/*.yaml
var crds embed.FS

// CRDs returns the CustomResourceDefinitions of the chart, as YAML.
func CRDs() ([][]byte, error) {
	names, err := fs.Glob(crds, "rouse/files/crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list the CRDs: %w", err)
	}
	found := make([][]byte, 0, len(names))
	for _, name := range names {
		content, err := crds.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the CRD %s: %w", name, err)
		}
		found = append(found, content)
	}
	return found, nil
}
