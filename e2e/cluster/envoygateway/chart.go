package envoygateway

import (
	"bytes"
	"embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

const (
	// Release is the name of the Helm release.
	Release = "envoy-gateway"
	// Namespace of the release, and of the proxies.
	Namespace = "envoy-gateway-system"
	// GatewayName is that of the Gateway that APIRules name.
	GatewayName = "kyma-gateway"
	// GatewayNamespace is where it is.
	GatewayNamespace = "kyma-system"
)

//go:embed manifests
var manifests embed.FS

// CRDs are the directories of those of Gateway API, standard channel, and of Envoy Gateway.
func CRDs(built component.Built) []string {
	return []string{built.Path("config", "crd", "standard"), built.Path("charts", "gateway-helm", "charts", "crds", "crds", "generated")}
}

// WriteChart writes the chart into the state directory and returns its directory. In the module the values are a template, which
// a release of Envoy Gateway fills with its images.
func WriteChart(dir state.Dir, built component.Built, images Images) (string, error) {
	chart, source := dir.Path("envoy-gateway"), built.Path("charts", "gateway-helm")
	if err := os.RemoveAll(chart); err != nil {
		return "", err
	}
	if err := os.CopyFS(chart, os.DirFS(source)); err != nil {
		return "", err
	}
	values, err := os.ReadFile(filepath.Join(source, "values.tmpl.yaml"))
	if err != nil {
		return "", err
	}
	filled := strings.NewReplacer("${GatewayImage}", images.Gateway.Reference(), "${GatewayImagePullPolicy}", "IfNotPresent")
	return chart, state.Write(filepath.Join(chart, "values.yaml"), filled.Replace(string(values)))
}

// Values are what the chart is installed with.
func Values() (string, error) { return render("values.yaml", Images{}) }

// Manifests are the GatewayClass, how its proxies run, and the Gateway.
func Manifests(images Images) (string, error) { return render("gateway.yaml", images) }

func render(name string, images Images) (string, error) {
	parsed, err := template.ParseFS(manifests, "manifests/"+name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, images)
	return text.String(), err
}
