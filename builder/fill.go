package builder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/internal/buildplan"
)

// Prepare fills the Function's directory as the image of the plan would have it, and pushes nothing.
func (b *Builder) Prepare(ctx context.Context) buildplan.Result {
	plan, err := b.beginTask()
	if err != nil {
		return resultOf(ctx, err)
	}
	secrets := b.secrets()
	dir := b.o.Function
	if dir == "" {
		dir = plan.language.FunctionDir
	}
	if err := emptyOut(dir); err != nil {
		return resultOf(ctx, err)
	}
	return secrets.hide(resultOf(ctx, b.fill(ctx, plan, dir, secrets)))
}

// Install makes the layer of the plan in the runtime's image and hands it over to Push, which runs beside it.
func (b *Builder) Install(ctx context.Context) buildplan.Result {
	plan, err := b.beginTask()
	if err != nil {
		return resultOf(ctx, err)
	}
	// Before anything of a package runs, so that nothing else can answer in our place.
	to, err := dialHandover(ctx, b.o.Handover)
	if err != nil {
		return resultOf(ctx, err)
	}
	defer to.close()
	secrets := b.secrets()
	working, stop := to.whileWanted(ctx)
	defer stop()
	err = b.installInto(working, plan, to, secrets)
	if ctx.Err() == nil && working.Err() != nil {
		return buildplan.Result{} // Push has ended, and says why
	}
	return secrets.hide(resultOf(ctx, err))
}

func (b *Builder) installInto(ctx context.Context, plan task, to *handover, secrets secrets) error {
	dir := filepath.Join(b.o.Work, "function")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the children's user reads it
		return fmt.Errorf("make the Function's directory: %w", err)
	}
	if err := b.fill(ctx, plan, dir, secrets); err != nil {
		return err
	}
	return b.phase("layer", func() error {
		entries, err := list(dir)
		if err != nil {
			return err
		}
		if err := checkSize(entries, plan.MaxSize); err != nil {
			return err
		}
		return to.send(plan.language.FunctionDir, entries)
	})
}

// fill puts everything into dir that the image has there.
func (b *Builder) fill(ctx context.Context, plan task, dir string, secrets secrets) error {
	if plan.language.Compiled != nil {
		return b.fillWithBinary(ctx, plan, dir, secrets)
	}
	if err := b.phase("source", func() error { return b.place(plan, dir) }); err != nil {
		return err
	}
	if err := b.phase("check", func() error { return b.check(ctx, plan, dir) }); err != nil {
		return err
	}
	if err := b.phase("install", func() error { return b.install(ctx, plan, dir, secrets) }); err != nil {
		return err
	}
	if plan.language.Bytecode == nil {
		return nil
	}
	return b.phase("compile", func() error { return b.compile(ctx, plan.language, dir) })
}
