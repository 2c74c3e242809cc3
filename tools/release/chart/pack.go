package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v3"

	"github.com/rouse-run/rouse/tools/pack"
	"github.com/rouse-run/rouse/tools/release/archive"
)

// Media types of a chart in a registry, as Helm's documentation of OCI support has them.
const (
	configType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	contentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Pack writes a chart's directory to a file as helm package does, but with no times in it.
func Pack(dir, file string) error {
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
	return archive.Write(file, packed)
}

// Image is a packed chart as registries keep it. Its metadata is that of the chart's directory.
func Image(dir, file string, created time.Time) (v1.Image, error) {
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
