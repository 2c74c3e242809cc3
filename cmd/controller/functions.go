package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/git"
)

// setUpFunctions sets up the controllers of Functions and of their builds. What it returns may change their settings.
func setUpFunctions(ctx context.Context, manager ctrl.Manager, o *options) (*liveSettings, error) {
	ca, err := readCABundle(o.caBundle)
	if err != nil {
		return nil, err
	}
	guard, err := o.guard()
	if err != nil {
		return nil, err
	}
	repositories, err := git.New(git.Options{CA: ca, Guard: guard})
	if err != nil {
		return nil, fmt.Errorf("set up the client of Git repositories: %w", err)
	}
	namespaces := o.registry
	namespaces.Guard = guard
	registries := images.NewResolver(manager.GetClient(), manager.GetAPIReader(), namespaces, ca)
	if access := o.subscription.Sinks.Access; access.Publish != nil {
		o.function.PublisherAudience = access.Publish.Audience
	}
	o.function.HTTPWake = o.activation.Enabled()
	o.function.Build.FIPS = fips.Running().Mode()
	live := &liveSettings{
		functions: function.NewLive(o.function, o.settings.ConfigMap != ""), repositories: gitpoll.NewTracker(repositories, metrics.Registry, o.git), git: o.git,
	}
	builds := buildqueue.NewQueue(o.function.Build.Limits(), buildqueue.JobReader{Reader: manager.GetClient()}, clock.RealClock{})
	err = function.Setup(ctx, manager, function.Parts{
		Registerer:   metrics.Registry,
		Registries:   registries,
		Builds:       builds,
		Repositories: live.repositories,
		CA:           ca,
		Settings:     live.functions,
	}, o.function)
	if err != nil || o.images.RegistryDeployment == "" {
		return live, err
	}
	return live, collectImages(manager, o, registries, builds)
}

// collectImages deletes what Functions leave in the internal registry.
func collectImages(manager ctrl.Manager, o *options, registries *images.Resolver, builds *buildqueue.Queue) error {
	collector := images.New(images.Deps{
		Live: manager.GetAPIReader(), Registry: registries, Builds: builds, Registerer: metrics.Registry,
		Log: manager.GetLogger().WithName("images"), RuntimeImages: slices.Sorted(maps.Values(o.function.RuntimeImages)),
	}, o.images)
	if err := manager.Add(collector); err != nil {
		return fmt.Errorf("set up the collector of images: %w", err)
	}
	return nil
}

// readCABundle refuses a file without a certificate: no connection would trust more with it.
func readCABundle(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path) //nolint:gosec // the installation names it
	if err != nil {
		return nil, fmt.Errorf("read --ca-bundle: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("read --ca-bundle %s: %w", path, errors.New("it has no certificate in PEM form"))
	}
	return content, nil
}
