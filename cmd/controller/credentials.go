package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/credentials"
	"github.com/rouse-run/rouse/internal/kube"
)

// makeCredentials writes the Secrets that an installation needs and lacks.
func makeCredentials(ctx context.Context, o *credentials.Options, log logr.Logger) error {
	kube.SetLogger(log)
	rest, scheme, err := kube.Cluster()
	if err != nil {
		return err
	}
	objects, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return credentials.Make(ctx, objects, o, log)
}
