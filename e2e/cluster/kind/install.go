package kind

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/addon"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
)

// rolloutLimit is how long a workload may take until it is ready, its image pulled.
const rolloutLimit = 10 * time.Minute

func (c *Cluster) installRegistry(ctx context.Context) error {
	return c.progress.Step(ctx, "registry", func(ctx context.Context, detail progress.Detail) error {
		detail("%s", node.RegistryHost)
		manifest, err := addon.RegistryManifest(addon.Registry{
			Image: registryImage, Address: registryAddress, Data: registryDir,
			Certificate: path.Join(pkiDir, "registry.crt"), Key: path.Join(pkiDir, "registry.key"),
		})
		if err != nil {
			return err
		}
		if err := c.kubectl().Apply(ctx, manifest); err != nil {
			return err
		}
		return c.kubectl().RolledOut(ctx, "kube-system", "deployment/registry", rolloutLimit)
	})
}

// fillRegistry pushes the runtimes' images from the node, which knows the registry, to where builds of Functions read them.
func (c *Cluster) fillRegistry(ctx context.Context, images map[string]string, runtimes []release.Runtime) error {
	return c.progress.Step(ctx, "images in the registry", func(ctx context.Context, detail progress.Detail) error {
		detail("%d runtimes", len(runtimes))
		for _, runtime := range runtimes {
			if _, err := c.run(ctx, "docker", inNode("push", "--hosts-dir", hostsDir, images[runtimeName(runtime)])...); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Cluster) installKEDA(ctx context.Context) error {
	return c.progress.Step(ctx, "KEDA", func(ctx context.Context, detail progress.Detail) error {
		detail("%s", kedaVersion)
		if _, err := c.kubectl().Run(ctx, "apply", "--server-side", "--force-conflicts", "-f", kedaManifest); err != nil {
			return err
		}
		for _, workload := range []string{"deployment/keda-operator", "deployment/keda-metrics-apiserver"} {
			if err := c.kubectl().RolledOut(ctx, "keda", workload, rolloutLimit); err != nil {
				return err
			}
		}
		_, err := c.kubectl().Run(ctx, "wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io",
			"--timeout="+rolloutLimit.String())
		return err
	})
}

func (c *Cluster) installRouse(ctx context.Context, images map[string]string, runtimes []release.Runtime) error {
	return c.progress.Step(ctx, "Rouse", func(ctx context.Context, detail progress.Detail) error {
		detail("release %s in namespace %s", release.Name, release.Namespace)
		authority, err := os.ReadFile(c.options.Dir.PKI("ca.crt"))
		if err != nil {
			return err
		}
		// The machine may be behind a TLS proxy.
		chart, err := values(images, runtimes, string(authority)+host.CABundle())
		if err != nil {
			return err
		}
		binary, err := c.linkHelm(ctx)
		if err != nil {
			return err
		}
		if err := c.kubectl().Apply(ctx, release.Fixtures(images[sourcesName])); err != nil {
			return err
		}
		if _, err := c.kubectl().Run(ctx, release.DeletePending(release.Namespace, release.Name)...); err != nil {
			return err
		}
		helm := release.Helm{Binary: binary, Kubeconfig: c.options.Dir.Kubeconfig(), Home: c.options.Dir.Helm(), Log: c.options.Dir.Log("helm")}
		if err := helm.Install(ctx, c.options.Repository, chart); err != nil {
			return c.kubectl().Explain(ctx, release.Namespace, err)
		}
		return nil
	})
}

// linkHelm puts Helm where env leads to.
func (c *Cluster) linkHelm(ctx context.Context) (string, error) {
	binary, err := c.helm(ctx)
	if err != nil {
		return "", err
	}
	link := c.options.Dir.Path("tools", "helm")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return "", err
	}
	_ = os.Remove(link)
	return binary, os.Symlink(binary, link)
}
