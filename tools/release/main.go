package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release failed:", err)
		os.Exit(1)
	}
}

type options struct {
	version, out, registry, bases, images, key, repository string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := pflag.NewFlagSet("release", pflag.ContinueOnError)
	flags.StringVar(&o.version, "version", "", "of the release, as v0.1.0")
	flags.StringVar(&o.out, "out", "", "a folder that is not there yet")
	flags.StringVar(&o.registry, "registry", "", "where images and the chart are pushed to, as registry.example.com/path; empty: nowhere")
	flags.StringVar(&o.bases, "bases", "", "what the runtimes' images stand on: a folder that is an OCI layout, or a JSON file of references with digests")
	flags.StringVar(&o.images, "images", "", "a JSON file with the digests of the chart's other images, by their references; needed with --registry")
	listImages := flags.Bool("list-images", false, "print the references of these images, one a line, and make nothing")
	flags.StringVar(&o.key, "key", "", "cosign's private key, with its password in COSIGN_PASSWORD; empty: nothing is signed")
	flags.StringVar(&o.repository, "repository", ".", "the clone that is released")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *listImages {
		references, err := otherImages(o.chart())
		for _, reference := range references {
			_, _ = fmt.Fprintln(out, reference)
		}
		return err
	}
	return o.make(ctx, out)
}

func (o options) chart() string { return filepath.Join(o.repository, "charts", "rouse") }

// others returns the digests of third-party images. A release that is pushed needs all of them; a local one may use
// tags.
func (o options) others() (imageDigests, error) {
	if o.registry == "" && o.images == "" {
		return nil, nil
	}
	digests, err := readOthers(o.images)
	if err != nil {
		return nil, err
	}
	return digests, requireOthers(o.chart(), digests)
}

func (o options) make(ctx context.Context, out io.Writer) error {
	began := time.Now()
	progress := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%4.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	release, commit, err := o.check(ctx)
	if err != nil {
		return err
	}
	signer, err := newSigner(o.key)
	if err != nil {
		return err
	}
	others, err := o.others()
	if err != nil {
		return err
	}
	found, err := openBases(ctx, o.bases)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "rouse-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	made, err := twice(ctx, checkout{Dir: o.repository}, commit, work, maker{release: release, bases: found, others: others, progress: progress})
	if err != nil {
		return err
	}
	if err := o.give(ctx, made, signer); err != nil {
		return err
	}
	progress("all is in %s", o.out)
	_, err = fmt.Fprintf(out, "release ok: images=%d platforms=%d charts=1 archives=%d sbom=%d reproducible=yes\n",
		len(made.digests), len(commandPlatforms()), len(commandPlatforms()), made.sboms)
	return err
}

// twice builds a release in two directories, since builds often depend on their path, and compares the results.
func twice(ctx context.Context, clone checkout, commit commit, work string, template maker) (*maker, error) {
	makers := [2]maker{template, template}
	for i := range makers {
		m := &makers[i]
		m.source, m.work, m.out = filepath.Join(work, fmt.Sprintf("source-%d", i)), filepath.Join(work, fmt.Sprintf("work-%d", i)), filepath.Join(work, fmt.Sprintf("out-%d", i))
		if err := clone.Export(ctx, commit, m.source); err != nil {
			return nil, fmt.Errorf("export the commit: %w", err)
		}
		if err := m.make(ctx); err != nil {
			return nil, err
		}
	}
	return &makers[0], same(makers[0].out, makers[1].out)
}

// give signs the result, pushes it, and moves it to the user's directory.
func (o options) give(ctx context.Context, made *maker, signer keySigner) error {
	if err := signer.File(filepath.Join(made.out, checksumsFile)); err != nil {
		return err
	}
	if o.registry != "" {
		made.progress("push to %s", o.registry)
		if err := (destination{}).Push(ctx, made.artifacts, signer); err != nil {
			return err
		}
	}
	return move(made.out, o.out)
}

// check detects everything that would fail a release later, before anything is built.
func (o options) check(ctx context.Context) (release, commit, error) {
	release := release{Version: o.version, Registry: o.registry}
	if release.Registry == "" {
		release.Registry = defaultRegistry
	}
	if err := release.Validate(); err != nil {
		return release, commit{}, err
	}
	if o.out == "" {
		return release, commit{}, errors.New("OUT is empty: name a folder that is not there yet")
	}
	if _, err := os.Stat(o.out); err == nil {
		return release, commit{}, fmt.Errorf("OUT is %s, which is there already: remove it, or name another folder", o.out)
	}
	commit, err := checkout{Dir: o.repository}.Head(ctx, o.version)
	if err != nil {
		return release, commit, err
	}
	release.Commit, release.Time = commit.ID, commit.Time
	if o.registry == "" {
		return release, commit, nil
	}
	return release, commit, destination{}.Refuse(ctx, []string{release.Image(), release.ChartRepository() + "/rouse"}, release.Number())
}
