package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes/language"
)

// fillWithBinary puts a binary into dir, and nothing of what it is made of.
func (b *Builder) fillWithBinary(ctx context.Context, plan task, dir string, secrets secrets) error {
	project := filepath.Join(b.o.Work, "project")
	source := filepath.Join(project, language.SourceDir)
	if err := errors.Join(os.RemoveAll(project), os.MkdirAll(source, 0o700)); err != nil {
		return fmt.Errorf("make a folder to compile in: %w", err)
	}
	if err := b.phase("source", func() error { return b.place(plan, source) }); err != nil {
		return err
	}
	if err := b.phase("check", func() error { return b.check(ctx, plan, source) }); err != nil {
		return err
	}
	return b.phase("compile", func() error {
		return b.compileBinary(ctx, plan, project, filepath.Join(dir, plan.language.Compiled.Binary), secrets)
	})
}

func (b *Builder) compileBinary(ctx context.Context, plan task, project, binary string, secrets secrets) error {
	packages, server := plan.language.Packages, b.o.Server
	if server == "" {
		server = plan.language.Compiled.ServerDir
	}
	keep := b.o.Work
	if b.o.Cache != "" {
		keep = b.o.Cache
	}
	objects := filepath.Join(keep, "objects")
	if err := linkTree(filepath.Join(server, plan.language.Compiled.ObjectsDir), objects); err != nil {
		return err
	}
	output := secrets.writer(b.deps.Output)
	defer output.flush()
	err := dependencies.Compile(ctx, dependencies.Compilation{
		Request: dependencies.Request{
			Language: plan.language, Program: packages.Program, Dir: project, Manifest: manifestOf(plan),
			Setup: filepath.Join(b.o.Packages, packages.Settings), Work: b.o.Work, Env: b.env, Site: dependencies.Image(),
		},
		Modules: filepath.Join(keep, "modules"), Objects: objects, Server: server, Binary: binary,
	}, output)
	if failed := (&dependencies.Failure{}); errors.As(err, &failed) {
		return &reasonError{reason: failed.Reason, message: failed.Message, log: failed.Log}
	}
	return err
}

// linkTree makes a tree that can be added to of one that can only be read, which does not have to be there.
func linkTree(from, to string) error {
	err := filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		err = os.Symlink(file, filepath.Join(to, name)) //nolint:gosec // below the build's own directory
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take over what is compiled already: %w", err)
	}
	return nil
}
