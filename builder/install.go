package builder

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/rouse-run/rouse/internal/dependencies"
)

// install puts the dependencies that dir's manifest names into dir.
func (b *Builder) install(ctx context.Context, plan task, dir string, secrets secrets) error {
	packages := plan.language.Packages
	output := secrets.writer(b.deps.Output)
	defer output.flush()
	err := dependencies.Install(ctx, dependencies.Request{
		Language: plan.language, Program: packages.Program, Dir: dir, Manifest: manifestOf(plan),
		Setup: filepath.Join(b.o.Packages, packages.Settings),
		Work:  b.o.Work, Cache: b.o.Cache, Discard: b.o.Cache == "",
		Env: b.env, Site: dependencies.Image(),
	}, output)
	if failed := (&dependencies.Failure{}); errors.As(err, &failed) {
		return &reasonError{reason: failed.Reason, message: failed.Message, log: failed.Log}
	}
	return err
}

// manifestOf names the dependencies as the user knows them.
func manifestOf(plan task) string {
	if plan.Git == nil {
		return "spec.source.inline.dependencies"
	}
	return plan.language.Packages.Manifest + " in " + whereIn(plan)
}
