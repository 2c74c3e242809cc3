package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// installCRDs installs those of the runtime's module, without the conversion between their versions. They stay.
func installCRDs(ctx context.Context, config *rest.Config) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/servicebinding/runtime").Output()
	if err != nil {
		return fmt.Errorf("find the runtime's module: %w", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "bases")
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{folder}, ErrorIfPathMissing: true}); err != nil {
		return fmt.Errorf("install the CRDs of %s: %w", folder, err)
	}
	return nil
}
