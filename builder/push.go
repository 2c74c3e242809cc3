package builder

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/internal/buildplan"
)

// Push adds the layer that Install hands over to the runtime's image, and pushes the result. It runs nothing of the
// Function or its packages. When Install ends without a layer, so does Push, and leaves it to Install to say why.
func (b *Builder) Push(ctx context.Context) buildplan.Result {
	start := time.Now()
	result, err := b.push(ctx)
	if errors.Is(err, errNotHandedOver) && ctx.Err() == nil {
		return buildplan.Result{}
	}
	if err != nil {
		return resultOf(ctx, err)
	}
	b.deps.Log.Info("pushed the image", "digest", result.Digest, "seconds", seconds(start))
	return result
}

func (b *Builder) push(ctx context.Context) (buildplan.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plan, err := b.beginTask()
	if err != nil {
		return buildplan.Result{}, err
	}
	at, err := listenHandover(b.o.Handover)
	if err != nil {
		return buildplan.Result{}, err
	}
	defer at.close()
	// Install learns of a failure by its end of the connection, so the connection comes before anything that can fail.
	from, err := at.accept(ctx)
	if err != nil {
		return buildplan.Result{}, err
	}
	defer func() { _ = from.Close() }()
	known, err := readCredentials(b.o.Registry)
	if err != nil {
		return buildplan.Result{}, err
	}
	target, err := newTarget(plan.Plan, known, b.ca)
	if err != nil {
		return buildplan.Result{}, err
	}
	base, added, err := b.baseAndLayer(ctx, plan, target, from)
	if err != nil {
		return buildplan.Result{}, err
	}
	var digest string
	err = b.phase("push", func() error {
		image, err := withLayer(base, added)
		if err != nil {
			return err
		}
		digest, err = target.push(ctx, image)
		return err
	})
	return buildplan.Result{Digest: digest, Size: added.size}, err
}

// baseAndLayer gets the base ready while the layer is made: one waits for registries, the other for packages.
// The first that fails ends the other. The base reads from its registry under ctx also after the return.
func (b *Builder) baseAndLayer(
	ctx context.Context, plan task, target *target, from net.Conn,
) (base v1.Image, added layer, err error) {
	ctx, end := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	parts.Go(func() {
		err := b.phase("base", func() (err error) {
			if err := target.check(); err != nil {
				return err
			}
			if plan.language.Compiled != nil {
				base, err = bareBase(plan.language)
				return err
			}
			if base, err = target.openBase(ctx, plan.Plan, b.deps.Log); err != nil {
				return err
			}
			return target.mount(ctx, base)
		})
		if err != nil {
			end(err)
		}
	})
	parts.Go(func() {
		err := b.phase("receive", func() (err error) {
			added, err = receive(ctx, from, func(in io.Reader) (layer, error) {
				return readLayer(in, plan.language.FunctionDir, filepath.Join(b.o.Work, "layer.tar.gz"), plan.MaxSize)
			})
			return err
		})
		if err != nil {
			end(err)
		}
	})
	parts.Wait()
	return base, added, context.Cause(ctx)
}
