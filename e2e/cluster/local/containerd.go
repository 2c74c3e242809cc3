package local

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
)

// startContainerds starts those of all nodes, the first one's first: it leaves the template from which the others have their images.
func (c *Cluster) startContainerds(ctx context.Context, ran bool, images images) error {
	if err := c.startContainerd(ctx, c.nodes[0], ran, images); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range c.nodes[1:] {
		group.Go(func() error { return c.startContainerd(ctx, one, ran, images) })
	}
	return group.Wait()
}

// startContainerd starts a node's containerd with the images in it: from the template of this set of images where there is one,
// else it loads them and keeps a template for the next time.
func (c *Cluster) startContainerd(ctx context.Context, on machine, ran bool, images images) error {
	program, err := node.WriteContainerd(on.Node, images.base.pause.Reference())
	if err != nil {
		return err
	}
	template := image.Template{Cache: c.options.Cache, Root: on.ContainerdRoot(), Log: on.Dir.Log("images")}
	key, err := template.Key(ctx, images.all())
	if err != nil {
		return err
	}
	restored := image.Nothing
	if !ran {
		err := c.progress.Step(ctx, on.label("image template"), func(ctx context.Context, detail progress.Detail) error {
			restored, err = template.Restore(ctx, key)
			detail("%s", restored)
			return err
		})
		if err != nil {
			return err
		}
	}
	err = c.progress.Step(ctx, on.label("containerd"), func(ctx context.Context, _ progress.Detail) error {
		return c.startUntil(ctx, on, program, 2*time.Minute, on.containerd().Ready)
	})
	if err != nil {
		return err
	}
	err = c.progress.Step(ctx, on.label("images"), func(ctx context.Context, detail progress.Detail) error {
		loaded, err := on.containerd().Load(ctx, images.all()...)
		detail("%d of %d were new", loaded, len(images.all()))
		return err
	})
	if err != nil || ran || restored == image.Exact {
		return err
	}
	if err := on.containerd().Keep(ctx, images.all()...); err != nil {
		return err
	}
	return c.saveTemplate(ctx, on, template, key, program)
}

// saveTemplate stops containerd for the copy, so that its databases are at rest. No container runs yet.
func (c *Cluster) saveTemplate(ctx context.Context, on machine, template image.Template, key string, program process.Program) error {
	return c.progress.Step(ctx, "keep image template", func(ctx context.Context, _ progress.Detail) error {
		if err := on.process.Stop(ctx, program.Name); err != nil {
			return err
		}
		if err := template.Save(ctx, key); err != nil {
			return err
		}
		return c.startUntil(ctx, on, program, 2*time.Minute, on.containerd().Ready)
	})
}
