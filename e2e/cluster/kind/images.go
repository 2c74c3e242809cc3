package kind

import (
	_ "embed"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/release"
)

//go:embed sources.Dockerfile
var sourcesDockerfile string

// registryImage is that of the chart.
const registryImage = "docker.io/library/registry:3"

// build is one image that docker builds.
type build struct {
	Name  string // without the tag
	Args  []string
	Stdin string // the Dockerfile, where there is no directory
}

const (
	rouseName   = image.Prefix + "rouse"
	sourcesName = image.Prefix + "source-server"
)

// builds are those of Rouse itself, of what the tests fetch from, and of the runtimes. docker prints what it has built.
func builds(repository string, runtimes []release.Runtime) []build {
	docker := func(args ...string) []string { return append([]string{"build", "--quiet", "--load"}, args...) }
	all := []build{
		{Name: rouseName, Args: docker("--build-arg", "VERSION=local", repository)},
		{Name: sourcesName, Args: docker("--build-arg", "PACKAGES="+strings.Join(release.SourcePackages(), " "), "-"), Stdin: sourcesDockerfile},
	}
	for _, runtime := range runtimes {
		all = append(all, build{
			Name: runtimeName(runtime),
			Args: docker("--build-arg", "BASE_IMAGE="+baseImage(runtime), filepath.Join(repository, "runtimes", runtime.Kind)),
		})
	}
	return all
}

// runtimeName has the registry in it that builds of Functions read the image from.
func runtimeName(runtime release.Runtime) string {
	return node.RegistryHost + "/rouse-runtime-" + runtime.Name
}

// baseImage is the official image of a runtime's language.
func baseImage(runtime release.Runtime) string { return "docker.io/library/" + runtime.Official }

// reference names an image by what docker printed of it, so that one that has changed has another name.
func reference(name, printed string) (string, error) {
	id, ok := strings.CutPrefix(strings.TrimSpace(printed), "sha256:")
	if !ok || len(id) < 12 {
		return "", fmt.Errorf("docker build printed %q where the image's ID was expected", printed)
	}
	return name + ":" + id[:12], nil
}

// missing are those of the wanted that the node does not list.
func missing(listed string, wanted []string) []string {
	known := strings.Fields(listed)
	return slices.DeleteFunc(slices.Clone(wanted), func(reference string) bool { return slices.Contains(known, reference) })
}

// values are the chart's. What it runs beside Rouse it takes from where it does by default.
func values(references map[string]string, runtimes []release.Runtime, caBundle string) (string, error) {
	offered := map[string]any{}
	for _, runtime := range release.Catalogue() {
		offered[runtime.Name] = nil
	}
	for _, runtime := range runtimes {
		offered[runtime.Name] = references[runtimeName(runtime)]
	}
	repository, tag, _ := strings.Cut(references[rouseName], ":")
	all := release.Settings()
	maps.Copy(all, map[string]any{
		"image": map[string]any{"repository": repository, "tag": tag}, "runtimes": offered, "caBundle": caBundle,
	})
	text, err := yaml.Marshal(all)
	return string(text), err
}
