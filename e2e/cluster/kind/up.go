package kind

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/pki"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// ErrTakenDown means that the start failed for the reason printed, and that nothing of it is left.
var ErrTakenDown = errors.New("the start failed, see above")

// Up brings the cluster up. On one that runs it loads images that changed and upgrades the release.
func (c *Cluster) Up(ctx context.Context) error {
	if err := c.Preflight(ctx); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	ran, err := c.running(ctx)
	if err != nil {
		return err
	}
	if err := c.bringUp(ctx, ran); err != nil {
		if ran || c.options.KeepFailed {
			return err
		}
		c.progress.Explain(err)
		return errors.Join(ErrTakenDown, c.takeDown(context.WithoutCancel(ctx)))
	}
	return nil
}

func (c *Cluster) bringUp(ctx context.Context, ran bool) error {
	runtimes, err := release.Choose(c.options.Runtimes)
	if err != nil {
		return err
	}
	images, err := c.buildImages(ctx, runtimes)
	if err != nil {
		return err
	}
	if !ran {
		if err := c.create(ctx); err != nil {
			return err
		}
	}
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return c.load(ctx, slices.Sorted(maps.Values(images))) },
		c.installRegistry,
		func(ctx context.Context) error { return c.fillRegistry(ctx, images, runtimes) },
		c.installKEDA,
	}
	if !c.options.Bare {
		steps = append(steps, func(ctx context.Context) error { return c.installRouse(ctx, images, runtimes) })
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// buildImages returns the references of all images by their names.
func (c *Cluster) buildImages(ctx context.Context, runtimes []release.Runtime) (map[string]string, error) {
	images := map[string]string{}
	for _, one := range builds(c.options.Repository, runtimes) {
		err := c.progress.Step(ctx, "build "+path.Base(one.Name), func(ctx context.Context, detail progress.Detail) error {
			docker := c.command("docker", one.Args...)
			docker.Stdin = strings.NewReader(one.Stdin)
			printed, err := docker.Run(ctx)
			if err != nil {
				return err
			}
			named, err := reference(one.Name, printed)
			if err != nil {
				return err
			}
			images[one.Name] = named
			detail("%s", named)
			_, err = c.run(ctx, "docker", "tag", strings.TrimSpace(printed), named)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return images, nil
}

func (c *Cluster) create(ctx context.Context) error {
	return c.progress.Step(ctx, "kind", func(ctx context.Context, detail progress.Detail) error {
		detail("cluster %s of %d nodes, state %s", Name, max(1, c.options.Nodes), c.options.Dir)
		if err := writeFiles(c.options.Dir, c.options.Nodes); err != nil {
			return err
		}
		_, err := c.run(ctx, "kind", createArgs(c.options.Dir)...)
		return err
	})
}

// writeFiles writes what kind and the nodes read.
func writeFiles(dir state.Dir, nodes int) error {
	authority, err := pki.NewAuthority("rouse-kind")
	if err != nil {
		return err
	}
	hostname, _, _ := strings.Cut(node.RegistryHost, ":")
	registry, err := authority.Sign(pki.Request{Name: "registry", Hosts: []string{hostname, registryAddress}})
	if err != nil {
		return err
	}
	cluster, err := config(dir, nodes)
	if err != nil {
		return err
	}
	files := map[string]string{
		dir.PKI("ca.crt"): authority.PEM(), dir.PKI("registry.crt"): registry.Certificate, dir.PKI("registry.key"): registry.Key,
		hostsFile(dir): hosts(), dir.Config("kind.yaml"): cluster,
	}
	for file, content := range files {
		if err := state.Write(file, content); err != nil {
			return err
		}
	}
	return nil
}

// load gives the node the images that it does not have.
func (c *Cluster) load(ctx context.Context, images []string) error {
	return c.progress.Step(ctx, "images", func(ctx context.Context, detail progress.Detail) error {
		listed, err := c.run(ctx, "docker", inNode("list", "--quiet")...)
		if err != nil {
			return err
		}
		wanted := missing(listed, images)
		detail("%d of %d are new", len(wanted), len(images))
		if len(wanted) == 0 {
			return nil
		}
		archive := c.options.Dir.Path("images.tar")
		defer func() { _ = os.Remove(archive) }()
		if _, err := c.run(ctx, "docker", append([]string{"save", "--output", archive}, wanted...)...); err != nil {
			return err
		}
		_, err = c.run(ctx, "kind", loadArgs(archive)...)
		return err
	})
}
