package local

import (
	"context"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
)

// startContainerd starts containerd with the images in it: from the template of this set of images where there is one,
// else it loads them and keeps a template for the next time.
func (c *Cluster) startContainerd(ctx context.Context, ran bool, images images) error {
	program, err := node.WriteContainerd(c.options.Dir, images.base.pause.Reference())
	if err != nil {
		return err
	}
	template := image.Template{Cache: c.options.Cache, Root: node.ContainerdRoot(c.options.Dir), Log: c.logs("images")}
	key, err := template.Key(ctx, images.all())
	if err != nil {
		return err
	}
	restored := image.Nothing
	if !ran {
		err := c.progress.Step(ctx, "image template", func(ctx context.Context, detail progress.Detail) error {
			restored, err = template.Restore(ctx, key)
			detail("%s", restored)
			return err
		})
		if err != nil {
			return err
		}
	}
	err = c.progress.Step(ctx, "containerd", func(ctx context.Context, _ progress.Detail) error {
		return c.startUntil(ctx, program, 2*time.Minute, c.containerd().Ready)
	})
	if err != nil {
		return err
	}
	err = c.progress.Step(ctx, "images", func(ctx context.Context, detail progress.Detail) error {
		loaded, err := c.containerd().Load(ctx, images.all()...)
		detail("%d of %d were new", loaded, len(images.all()))
		return err
	})
	if err != nil || ran || restored == image.Exact {
		return err
	}
	if err := c.containerd().Keep(ctx, images.all()...); err != nil {
		return err
	}
	return c.saveTemplate(ctx, template, key, program)
}

// saveTemplate stops containerd for the copy, so that its databases are at rest. No container runs yet.
func (c *Cluster) saveTemplate(ctx context.Context, template image.Template, key string, program process.Program) error {
	return c.progress.Step(ctx, "keep image template", func(ctx context.Context, _ progress.Detail) error {
		if err := c.process.Stop(ctx, program.Name); err != nil {
			return err
		}
		if err := template.Save(ctx, key); err != nil {
			return err
		}
		return c.startUntil(ctx, program, 2*time.Minute, c.containerd().Ready)
	})
}
