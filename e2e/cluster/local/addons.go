package local

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"text/template"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// baseImages are the images of the cluster itself.
type baseImages struct {
	pause, coredns, registry, kedaOperator, kedaAdapter image.Image
}

func (b baseImages) all() []image.Image {
	return []image.Image{b.pause, b.coredns, b.registry, b.kedaOperator, b.kedaAdapter}
}

func (c *Cluster) baseImages(ctx context.Context) (images baseImages, err error) {
	err = c.progress.Step(ctx, "cluster images", func(_ context.Context, detail command.Detail) error {
		for built, target := range map[string]*image.Image{
			components.Pause().Name: &images.pause, components.CoreDNS().Name: &images.coredns, components.Registry().Name: &images.registry,
			components.KEDAOperator().Name: &images.kedaOperator, components.KEDAAdapter().Name: &images.kedaAdapter,
		} {
			made, err := c.BinaryImage(built)
			if err != nil {
				return err
			}
			*target = made
		}
		detail("%d assembled", len(images.all()))
		return nil
	})
	return images, err
}

// seedRegistry adds the base images of builds to the cluster's registry: a container can only read them from a
// registry.
func (c *Cluster) seedRegistry(ctx context.Context, images []image.Image) error {
	images = slices.DeleteFunc(slices.Clone(images), func(one image.Image) bool { return one.Registry == "" })
	return c.progress.Step(ctx, "images in the registry", func(_ context.Context, detail command.Detail) error {
		added, err := image.Storage(registryData(c.options.Dir)).Put(images...)
		detail("%d of %d were new", added, len(images))
		return err
	})
}

func (c *Cluster) installAddons(ctx context.Context, images baseImages) error {
	err := c.progress.Step(ctx, "apply addons", func(ctx context.Context, detail command.Detail) error {
		detail("CoreDNS, registry, volumes, KEDA")
		manifests, err := addonManifests(c.options.Dir, images.coredns, images.registry)
		if err != nil {
			return err
		}
		if err := c.Kubectl().Apply(ctx, manifests); err != nil {
			return err
		}
		dir, err := writeKustomization(c.options.Dir, c.built[components.KEDAOperator().Name].Path("config"), images.kedaOperator, images.kedaAdapter)
		if err != nil {
			return err
		}
		return c.Kubectl().ApplyKustomization(ctx, dir)
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, workload := range []struct{ step, namespace, name string }{
		{"CoreDNS", "kube-system", "deployment/coredns"},
		{"registry", "kube-system", "deployment/registry"},
		{"KEDA operator", "keda", "deployment/keda-operator"},
		{"KEDA metrics adapter", "keda", "deployment/keda-metrics-apiserver"},
	} {
		group.Go(func() error {
			return c.progress.Step(ctx, workload.step, func(ctx context.Context, detail command.Detail) error {
				detail("%s is ready", workload.name)
				return c.Kubectl().RolledOut(ctx, workload.namespace, workload.name, RolloutLimit)
			})
		})
	}
	group.Go(func() error {
		return c.progress.Step(ctx, "external metrics API", func(ctx context.Context, _ command.Detail) error {
			_, err := c.Kubectl().Run(ctx, "wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io",
				"--timeout="+RolloutLimit.String())
			return err
		})
	})
	return group.Wait()
}

//go:embed manifests
var manifests embed.FS

// render renders the manifests that match a pattern as one YAML text.
func render(pattern string, values any) (string, error) {
	parsed, err := template.ParseFS(manifests, "manifests/"+pattern)
	if err != nil {
		return "", err
	}
	var all bytes.Buffer
	for _, part := range parsed.Templates() {
		if all.Len() > 0 {
			all.WriteString("---\n")
		}
		if err := part.Execute(&all, values); err != nil {
			return "", err
		}
	}
	return all.String(), nil
}

// volumes is the number of volumes for claims during the cluster's lifetime.
const volumes = 20

// volume is a directory for a claim.
type volume struct{ Name, Path string }

// addonSettings are the parameters of the manifests.
type addonSettings struct {
	CoreDNS, Registry    string
	DNS, RegistryAddress string
	RegistryData         string
	RegistryCertificate  string
	RegistryKey          string
	Nameservers          []string
	Volumes              []volume
}

// registryData returns the storage directory of the cluster's registry.
func registryData(dir state.Dir) string { return dir.Path("registry") }

// addonManifests renders all addons as one YAML text and creates the directories of the volumes.
func addonManifests(dir state.Dir, coredns, registry image.Image) (string, error) {
	values := addonSettings{
		CoreDNS: coredns.Reference(), Registry: registry.Reference(),
		DNS: host.DNSAddress, RegistryAddress: host.RegistryAddress, Nameservers: host.Nameservers(),
		RegistryData: registryData(dir), RegistryCertificate: dir.PKI("registry.crt"), RegistryKey: dir.PKI("registry.key"),
	}
	for n := range volumes {
		name := fmt.Sprintf("local-%02d", n)
		values.Volumes = append(values.Volumes, volume{Name: name, Path: dir.Path("volumes", name)})
	}
	for _, v := range values.Volumes {
		if err := os.MkdirAll(v.Path, 0o755); err != nil {
			return "", err
		}
		// Pods of various users other than root write here.
		if err := os.Chmod(v.Path, 0o777); err != nil {
			return "", err
		}
	}
	return render("addons/*.yaml", values)
}

// kedaSettings are the parameters of the manifests.
type kedaSettings struct {
	Operator, Adapter          image.Image
	CABundle, Certificate, Key string
}

// writeKustomization writes a kustomization over a copy of KEDA's manifests into the state directory, and returns its
// directory.
func writeKustomization(dir state.Dir, config string, operator, adapter image.Image) (string, error) {
	values := kedaSettings{Operator: operator, Adapter: adapter}
	for file, target := range map[string]*string{"ca.crt": &values.CABundle, "keda.crt": &values.Certificate, "keda.key": &values.Key} {
		content, err := os.ReadFile(dir.PKI(file))
		if err != nil {
			return "", err
		}
		*target = base64.StdEncoding.EncodeToString(content)
	}
	target := dir.Path("keda")
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir.Path("keda", "config"), os.DirFS(config)); err != nil {
		return "", err
	}
	for _, name := range []string{"kustomization.yaml", "certificates.yaml"} {
		text, err := render("keda/"+name, values)
		if err != nil {
			return "", err
		}
		if err := state.Write(dir.Path("keda", name), text); err != nil {
			return "", err
		}
	}
	return target, nil
}
