package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/tools/release/bases"
	"github.com/rouse-run/rouse/tools/release/checkout"
	"github.com/rouse-run/rouse/tools/release/plan"
	"github.com/rouse-run/rouse/tools/release/publish"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release failed:", err)
		os.Exit(1)
	}
}

type options struct {
	version, out, registry, bases, key, repository string
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := pflag.NewFlagSet("release", pflag.ContinueOnError)
	flags.StringVar(&o.version, "version", "", "of the release, as v0.1.0")
	flags.StringVar(&o.out, "out", "", "a folder that is not there yet")
	flags.StringVar(&o.registry, "registry", "", "where images and the chart are pushed to, as registry.example.com/path; empty: nowhere")
	flags.StringVar(&o.bases, "bases", "", "what the runtimes' images stand on: a folder that is an OCI layout, or a JSON file of references with digests")
	flags.StringVar(&o.key, "key", "", "cosign's private key, with its password in COSIGN_PASSWORD; empty: nothing is signed")
	flags.StringVar(&o.repository, "repository", ".", "the clone that is released")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return o.make(ctx)
}

func (o options) make(ctx context.Context) error {
	began := time.Now()
	progress := func(format string, args ...any) {
		fmt.Printf("%4.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	release, commit, err := o.check(ctx)
	if err != nil {
		return err
	}
	signer, err := publish.NewSigner(o.key)
	if err != nil {
		return err
	}
	found, err := bases.Open(ctx, o.bases)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "rouse-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	makers := [2]*maker{}
	for i := range makers {
		// The second is made elsewhere, since the first difference between two builds is where they lie.
		source := filepath.Join(work, fmt.Sprintf("source-%d", i))
		if err := (checkout.Checkout{Dir: o.repository}).Export(ctx, commit, source); err != nil {
			return fmt.Errorf("export the commit: %w", err)
		}
		makers[i] = &maker{
			release: release, source: source, work: filepath.Join(work, fmt.Sprintf("work-%d", i)),
			out: filepath.Join(work, fmt.Sprintf("out-%d", i)), bases: found, progress: progress,
		}
		if err := makers[i].make(ctx); err != nil {
			return err
		}
	}
	if err := same(makers[0].out, makers[1].out); err != nil {
		return err
	}
	made := makers[0]
	if err := signer.File(filepath.Join(made.out, plan.Checksums)); err != nil {
		return err
	}
	if o.registry != "" {
		progress("push to %s", o.registry)
		if err := o.push(ctx, made, signer); err != nil {
			return err
		}
	}
	if err := move(made.out, o.out); err != nil {
		return err
	}
	progress("all is in %s", o.out)
	fmt.Printf("release ok: images=%d platforms=%d charts=1 archives=%d sbom=%d reproducible=yes\n",
		len(made.digests), len(plan.CommandPlatforms()), len(plan.CommandPlatforms()), made.sboms)
	return nil
}

// check finds everything that would fail a release later, before anything is made.
func (o options) check(ctx context.Context) (plan.Release, checkout.Commit, error) {
	release := plan.Release{Version: o.version, Registry: o.registry}
	if release.Registry == "" {
		release.Registry = plan.DefaultRegistry
	}
	if err := release.Validate(); err != nil {
		return release, checkout.Commit{}, err
	}
	if o.out == "" {
		return release, checkout.Commit{}, errors.New("OUT is empty: name a folder that is not there yet")
	}
	if _, err := os.Stat(o.out); err == nil {
		return release, checkout.Commit{}, fmt.Errorf("OUT is %s, which is there already: remove it, or name another folder", o.out)
	}
	commit, err := checkout.Checkout{Dir: o.repository}.Head(ctx, o.version)
	if err != nil {
		return release, commit, err
	}
	release.Commit, release.Time = commit.ID, commit.Time
	if o.registry == "" {
		return release, commit, nil
	}
	return release, commit, publish.Registry{}.Refuse(ctx, []string{release.Image(), release.ChartRepository() + "/rouse"}, release.Number())
}

func (o options) push(ctx context.Context, made *maker, signer publish.Signer) error {
	return publish.Registry{}.Push(ctx, made.artifacts, signer)
}
