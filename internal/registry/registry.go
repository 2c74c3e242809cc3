package registry

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/rouse-run/rouse/internal/dialguard"
)

// Registry is where images are kept, and the credentials for it.
type Registry struct {
	// Host is host[:port]. It may have a path, which is then a part of every repository, as in docker.io/team.
	Host string
	// Username is empty for a registry that allows anonymous access.
	Username string
	// Password belongs to Username.
	Password string
	// Insecure means plain HTTP. Without it nothing is ever sent unencrypted.
	Insecure bool
	// CA has PEM certificates that are trusted besides those of the system.
	CA []byte
	// Guard bounds where a registry may be that a tenant has named. One that the operator names has none.
	Guard *dialguard.Guard
}

// String has no credentials.
func (r Registry) String() string { return r.Host }

// GoString has no credentials.
func (r Registry) GoString() string { return fmt.Sprintf("registry.Registry{Host: %q}", r.Host) }

// Repository is the full name of a repository in the registry.
func (r Registry) Repository(repository string) (name.Repository, error) {
	return name.NewRepository(r.Host + "/" + repository)
}

func (r Registry) authenticator() authn.Authenticator {
	if r.Username == "" {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{Username: r.Username, Password: r.Password})
}

// split separates the host from the path that every repository begins with.
func (r Registry) split() (name.Registry, string, error) {
	if r.Host == "" || strings.Contains(r.Host, "://") {
		return name.Registry{}, "", fmt.Errorf("the registry's address %q: want host, host:port or host/path", r.Host)
	}
	repository, err := r.Repository("any")
	if err != nil {
		return name.Registry{}, "", fmt.Errorf("the registry's address %q: %w", r.Host, err)
	}
	return repository.Registry, strings.TrimSuffix(repository.RepositoryStr(), "any"), nil
}
