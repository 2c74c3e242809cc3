package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rouse-run/rouse/tools/release/plan"
)

// Digests are those of the images by their names without registry.
type Digests map[string]string

// Pin gives a chart's directory the version of a release, its registry, and the digests of its images and, by their references, of those
// that are others'. A runtime without an image is not offered. Comments stay.
func Pin(dir string, release plan.Release, digests, others Digests) error {
	if err := pinOthers(filepath.Join(dir, "values.yaml"), others); err != nil {
		return err
	}
	err := edit(filepath.Join(dir, "Chart.yaml"), map[string]string{
		"version:":    "version: " + release.Number(),
		"appVersion:": "appVersion: " + release.Number(),
	})
	if err != nil {
		return err
	}
	offered, err := runtimes(filepath.Join(dir, "values.yaml"))
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
	lines["  repository: "+plan.DefaultRegistry+"/rouse"] = "  repository: " + release.Image()
	lines["  digests: {}"] = "  digests:                    # of the images of this release. They hold while tag is empty" + pins.String()
	return edit(filepath.Join(dir, "values.yaml"), lines)
}

// runtimes are those that a chart offers.
func runtimes(file string) ([]string, error) {
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

// edit replaces lines by what they begin with. Each has to be there once.
func edit(file string, lines map[string]string) error {
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
