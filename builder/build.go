package builder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/internal/build"
)

// Builder builds one plan.
type Builder struct {
	o    Options
	deps Deps
	ca   []byte
	env  []string
}

// New returns a builder that has touched nothing yet.
func New(o Options, deps Deps) *Builder { return &Builder{o: o, deps: deps} }

// Build makes and pushes the image of the plan in the input directory.
func (b *Builder) Build(ctx context.Context) build.Result {
	start := time.Now()
	result, err := b.build(ctx)
	if err != nil {
		return resultOf(ctx, err)
	}
	b.deps.Log.Info("built the image", "digest", result.Digest, "reused", result.Reused, "seconds", seconds(start))
	return result
}

// Prepare fills the Function's directory as the image of the plan would have it, and pushes nothing.
func (b *Builder) Prepare(ctx context.Context) build.Result {
	plan, err := b.begin()
	if err != nil {
		return resultOf(ctx, err)
	}
	dir := b.o.Function
	if dir == "" {
		dir = build.FunctionDir(languageOf(plan).python)
	}
	if err := emptyOut(dir); err != nil {
		return resultOf(ctx, err)
	}
	if err := b.fill(ctx, plan, dir); err != nil {
		return resultOf(ctx, err)
	}
	return build.Result{}
}

func (b *Builder) build(ctx context.Context) (build.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plan, err := b.begin()
	if err != nil {
		return build.Result{}, err
	}
	known, err := readCredentials(b.o.Registry)
	if err != nil {
		return build.Result{}, err
	}
	target, err := newTarget(plan, known, b.ca)
	if err != nil {
		return build.Result{}, err
	}
	var digest string
	err = b.phase("look", func() error {
		digest, err = target.find(ctx)
		return err
	})
	if err != nil || digest != "" {
		return build.Result{Digest: digest, Reused: digest != ""}, err
	}
	base, added, err := b.baseAndLayer(ctx, plan, target)
	if err != nil {
		return build.Result{}, err
	}
	err = b.phase("push", func() error {
		image, err := withLayer(base, added)
		if err != nil {
			return err
		}
		digest, err = target.push(ctx, image)
		return err
	})
	return build.Result{Digest: digest, Size: added.size}, err
}

// baseAndLayer gets the base ready while the layer is made: one waits for registries, the other for packages.
// The first that fails ends the other. The base reads from its registry under ctx also after the return.
func (b *Builder) baseAndLayer(ctx context.Context, plan build.Plan, target *target) (base v1.Image, added layer, err error) {
	ctx, end := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	parts.Go(func() {
		err := b.phase("base", func() (err error) {
			if base, err = target.openBase(ctx, plan.Base, b.deps.Log); err != nil {
				return err
			}
			return target.mount(ctx, base)
		})
		if err != nil {
			end(err)
		}
	})
	parts.Go(func() {
		var err error
		if added, err = b.makeLayer(ctx, plan); err != nil {
			end(err)
		}
	})
	parts.Wait()
	return base, added, context.Cause(ctx)
}

func (b *Builder) makeLayer(ctx context.Context, plan build.Plan) (added layer, err error) {
	dir := filepath.Join(b.o.Work, "function")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the children's user reads it
		return layer{}, fmt.Errorf("make the Function's directory: %w", err)
	}
	if err := b.fill(ctx, plan, dir); err != nil {
		return layer{}, err
	}
	err = b.phase("layer", func() (err error) {
		place := build.FunctionDir(languageOf(plan).python)
		added, err = writeLayer(dir, place, filepath.Join(b.o.Work, "layer.tar.gz"), plan.MaxSize)
		return err
	})
	return added, err
}

// fill puts everything into dir that the image has there.
func (b *Builder) fill(ctx context.Context, plan build.Plan, dir string) error {
	if err := b.phase("fetch", func() error { return b.fetch(ctx, plan, dir) }); err != nil {
		return err
	}
	if err := b.phase("check", func() error { return b.check(ctx, plan, dir) }); err != nil {
		return err
	}
	if err := b.phase("install", func() error { return b.install(ctx, plan, dir) }); err != nil {
		return err
	}
	if !languageOf(plan).python {
		return nil
	}
	return b.phase("compile", func() error { return b.compile(ctx, dir) })
}

// phase logs how long a part of the build took.
func (b *Builder) phase(name string, work func() error) error {
	start := time.Now()
	err := work()
	b.deps.Log.Info("ended a phase", "phase", name, "seconds", seconds(start), "succeeded", err == nil)
	return err
}

func seconds(since time.Time) float64 {
	return float64(time.Since(since).Milliseconds()) / 1000
}
