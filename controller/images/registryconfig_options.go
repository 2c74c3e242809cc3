package images

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/internal/dialguard"
)

// RegistryOptions say where the installation's own registry is described.
type RegistryOptions struct {
	// ReleaseNamespace has the Secrets that hold for all Functions.
	ReleaseNamespace string
	// Secret is the name of the default one; empty when there is none.
	Secret string
	// Guard bounds where a registry may be that a namespace names for itself.
	Guard dialguard.Guard
}

// DefaultRegistryOptions are those of an installation without a registry.
func DefaultRegistryOptions() RegistryOptions {
	return RegistryOptions{ReleaseNamespace: "rouse-system"}
}

// BindFlags lets command-line flags change the options.
func (o *RegistryOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ReleaseNamespace, "release-namespace", o.ReleaseNamespace, "namespace of the installation")
	fs.StringVar(&o.Secret, "registry-secret", o.Secret,
		"Secret in the installation's namespace that says where images are kept; empty: no registry by default")
}

// Validate finds everything that is wrong with the options.
func (o *RegistryOptions) Validate() error {
	var problems []error
	if found := validation.IsDNS1123Label(o.ReleaseNamespace); len(found) > 0 {
		problems = append(problems, fmt.Errorf("--release-namespace %q: %s", o.ReleaseNamespace, strings.Join(found, "; ")))
	}
	if found := validation.IsDNS1123Subdomain(o.Secret); o.Secret != "" && len(found) > 0 {
		problems = append(problems, fmt.Errorf("--registry-secret %q: %s", o.Secret, strings.Join(found, "; ")))
	}
	return errors.Join(problems...)
}
