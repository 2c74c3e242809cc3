package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

//go:embed templates
var templates embed.FS

// commandArchive is an archive of the command line.
type commandArchive struct {
	v1.Platform

	File   string
	SHA256 string
}

// page holds the parameters of templates.
type page struct {
	release

	Address  string // of the release's files
	Archives []commandArchive
}

// writeManifests writes the manifests of Krew and Homebrew and the script into a directory.
func writeManifests(dir string, release release, archives []commandArchive) error {
	values := page{release: release, Address: projectURL + "/releases/download/" + release.Version, Archives: archives}
	for name, mode := range map[string]os.FileMode{krewFile: 0o644, homebrewFile: 0o644, scriptFile: 0o755} {
		parsed, err := template.New(name+".tmpl").ParseFS(templates, "templates/"+name+".tmpl")
		if err != nil {
			return fmt.Errorf("read the template of %s: %w", name, err)
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, values); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), mode); err != nil {
			return err
		}
	}
	return nil
}

// writeCRDs writes the CRDs of a chart into one file.
func writeCRDs(chart, file string) error {
	found, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("there are no CRDs in %s: %w", chart, err)
	}
	var all bytes.Buffer
	for _, each := range found {
		text, err := os.ReadFile(each)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(text, []byte("---")) {
			all.WriteString("---\n")
		}
		all.Write(text)
	}
	return os.WriteFile(file, all.Bytes(), 0o644)
}

// The default arguments of Helm.
const (
	releaseName      = "rouse"
	releaseNamespace = "rouse-system"
)

// writeManifest renders a chart's directory into a file.
func writeManifest(dir, file string, release release) error {
	rendered, err := render(dir)
	if err != nil {
		return err
	}
	_, objects, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return fmt.Errorf("sort the chart's objects: %w", err)
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, `# Rouse %s, for those without Helm: kubectl apply --server-side -f install.yaml
# It is the chart with its defaults, in the namespace %s. A Job makes up the credentials that are not there yet.
apiVersion: v1
kind: Namespace
metadata:
  name: %[2]s
  labels:
    app.kubernetes.io/part-of: rouse
    pod-security.kubernetes.io/enforce: restricted
`, release.Version, releaseNamespace)
	for _, each := range objects {
		fmt.Fprintf(&all, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(each.Content), "---")))
	}
	return os.WriteFile(file, all.Bytes(), 0o644)
}

// render returns the rendered templates by their paths. The engine has no access to a cluster.
func render(dir string) (map[string]string, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	chosen := map[string]any{"credentials": map[string]any{"madeBy": "job"}}
	values, err := util.ToRenderValues(chart, chosen, common.ReleaseOptions{Name: releaseName, Namespace: releaseNamespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, fmt.Errorf("take the chart's values: %w", err)
	}
	if release, ok := values["Release"].(map[string]any); ok {
		release["Service"] = "kubectl" // for the label managed-by
	}
	texts, err := engine.Render(chart, values)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	for template := range texts {
		if path.Ext(template) != ".yaml" {
			delete(texts, template)
		}
	}
	return texts, nil
}
