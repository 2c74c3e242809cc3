package manifest

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"github.com/rouse-run/rouse/tools/release/plan"
)

// What a person would have told Helm.
const (
	name      = "rouse"
	namespace = "rouse-system"
)

// Write renders a chart's directory into a file.
func Write(dir, file string, release plan.Release) error {
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
`, release.Version, namespace)
	for _, each := range objects {
		fmt.Fprintf(&all, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(each.Content), "---")))
	}
	return os.WriteFile(file, all.Bytes(), 0o644)
}

// render returns the templates' texts by their paths. The engine has no cluster to look into.
func render(dir string) (map[string]string, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	chosen := map[string]any{"credentials": map[string]any{"madeBy": "job"}}
	values, err := util.ToRenderValues(chart, chosen, common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, fmt.Errorf("take the chart's values: %w", err)
	}
	if release, ok := values["Release"].(map[string]any); ok {
		release["Service"] = "kubectl" // of the label managed-by
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
