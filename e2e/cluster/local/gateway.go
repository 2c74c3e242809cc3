package local

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

func (c *Cluster) gatewayImages(ctx context.Context) (images gatewayImages, err error) {
	err = c.progress.Step(ctx, "Envoy Gateway's images", func(ctx context.Context, _ command.Detail) error {
		glibc, err := c.store.Debian(ctx, c.builder.Logs, "golang", "bookworm", "ca-certificates") // the layer of programs in Go, which exists anyway
		if err != nil {
			return err
		}
		images, err = makeGatewayImages(c.store, glibc, c.built[components.EnvoyGateway().Name], c.built[components.Envoy().Name])
		return err
	})
	return images, err
}

// installGateway installs Gateway API with a Gateway that accepts requests.
func (c *Cluster) installGateway(ctx context.Context, images gatewayImages) error {
	err := c.progress.Step(ctx, "load Envoy Gateway's images", func(ctx context.Context, _ command.Detail) error {
		return c.Load(ctx, images.All()...)
	})
	if err != nil {
		return err
	}
	err = c.progress.Step(ctx, "Envoy Gateway", func(ctx context.Context, detail command.Detail) error {
		detail("release %s in namespace %s", gatewayRelease, gatewaySystem)
		return c.installEnvoyGateway(ctx, images)
	})
	if err != nil {
		return err
	}
	return c.progress.Step(ctx, "Gateway", func(ctx context.Context, detail command.Detail) error {
		detail("%s/%s takes requests", gatewayNamespace, gatewayName)
		manifests, err := gatewayManifests(images)
		if err != nil {
			return err
		}
		if err := c.Kubectl().Apply(ctx, manifests); err != nil {
			return err
		}
		_, err = c.Kubectl().Run(ctx, "--namespace", gatewayNamespace, "wait", "--for=condition=Programmed",
			"gateway/"+gatewayName, "--timeout="+RolloutLimit.String())
		if err != nil {
			return c.Kubectl().Explain(ctx, gatewaySystem, err)
		}
		return nil
	})
}

func (c *Cluster) installEnvoyGateway(ctx context.Context, images gatewayImages) error {
	built := c.built[components.EnvoyGateway().Name]
	for _, dir := range gatewayCRDs(built) {
		if _, err := c.Kubectl().Run(ctx, "apply", "--server-side", "--force-conflicts", "-f", dir); err != nil {
			return err
		}
	}
	chart, err := writeGatewayChart(c.options.Dir, built, images)
	if err != nil {
		return err
	}
	values, err := gatewayValues()
	if err != nil {
		return err
	}
	return c.InstallChart(ctx, gatewaySystem, gatewayRelease, chart, values)
}

const (
	// gatewayRelease is the name of the Helm release.
	gatewayRelease = "envoy-gateway"
	// gatewaySystem is the namespace of the release and of the proxies.
	gatewaySystem = "envoy-gateway-system"
	// gatewayName is the name of the Gateway that APIRules use.
	gatewayName = "kyma-gateway"
	// gatewayNamespace is the namespace of that Gateway.
	gatewayNamespace = "kyma-system"
)

// gatewayCRDs returns the directories of the CRDs of Gateway API, standard channel, and of Envoy Gateway.
func gatewayCRDs(built components.Built) []string {
	return []string{built.Path("config", "crd", "standard"), built.Path("charts", "gateway-helm", "charts", "crds", "crds", "generated")}
}

// writeGatewayChart writes the chart into the state directory and returns its directory. In the module the values are a
// template, in which a release of Envoy Gateway inserts its images.
func writeGatewayChart(dir state.Dir, built components.Built, images gatewayImages) (string, error) {
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

// gatewayValues returns the chart's values.
func gatewayValues() (string, error) { return render("envoy-gateway/values.yaml", gatewayImages{}) }

// gatewayManifests returns the GatewayClass, the settings of its proxies, and the Gateway.
func gatewayManifests(images gatewayImages) (string, error) {
	return render("envoy-gateway/gateway.yaml", images)
}

// gatewayImages are the images of the controller and of its proxies.
type gatewayImages struct{ Gateway, Proxy image.Image }

// All returns both images.
func (i gatewayImages) All() []image.Image { return []image.Image{i.Gateway, i.Proxy} }

// makeGatewayImages places the programs as in the official images, since pods call them without a path. Envoy needs a
// layer with a C library.
func makeGatewayImages(store image.Store, glibc image.Layer, gateway, envoy components.Built) (gatewayImages, error) {
	controller, err := layer(store, gateway)
	if err != nil {
		return gatewayImages{}, err
	}
	proxy, err := layer(store, envoy)
	return gatewayImages{
		Gateway: image.Image{Name: gateway.Name, Layers: []image.Layer{controller}, Config: config(gateway)},
		Proxy:   image.Image{Name: envoy.Name, Layers: []image.Layer{glibc, proxy}, Config: config(envoy)},
	}, err
}

const programs = "/usr/local/bin"

func config(built components.Built) v1.Config {
	return v1.Config{Entrypoint: []string{path.Join(programs, built.Name)}, Env: []string{"PATH=" + programs + ":/usr/bin:/bin"}}
}

func layer(store image.Store, built components.Built) (image.Layer, error) {
	return store.Layer(built.Name, built.Key, func(file string) error {
		return pack.Files(file, []pack.File{
			{Path: path.Join(programs, built.Name), Source: built.Path(built.Name)},
			{Path: "/tmp", Mode: 0o1777}, // a proxy signals its end by a file there
		})
	})
}
