package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/rouse-run/rouse/controller/build"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/registry"
)

// setUpFunctions joins what turns Functions into what runs them.
func setUpFunctions(ctx context.Context, manager ctrl.Manager, o *options) error {
	ca, err := readCABundle(o.caBundle)
	if err != nil {
		return err
	}
	builds := build.NewQueue(o.function.Build.MaxSimultaneous, build.JobReader{Reader: manager.GetClient()}, clock.RealClock{})
	return function.Setup(ctx, manager, function.Parts{
		Registerer: metrics.Registry,
		Registries: registry.NewResolver(manager.GetClient(), manager.GetAPIReader(), o.registry, ca),
		Builds:     builds,
		CA:         ca,
	}, o.function)
}

// readCABundle refuses a file without a certificate: it would help nobody.
func readCABundle(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --ca-bundle: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("read --ca-bundle %s: %w", path, errors.New("it has no certificate in PEM form"))
	}
	return content, nil
}
