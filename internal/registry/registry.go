package registry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/rouse-run/rouse/internal/dialguard"
)

// Registry is the address of a registry with its credentials.
type Registry struct {
	// Host is host[:port]. It may have a path, which is then a part of every repository, as in docker.io/team.
	Host string
	// Username is empty for a registry that allows anonymous access.
	Username string
	// Password belongs to Username.
	Password string
	// Insecure means plain HTTP. Without it no request is sent unencrypted.
	Insecure bool
	// CA holds PEM certificates that are trusted in addition to those of the system.
	CA []byte
	// Guard limits the addresses of a registry that a tenant has chosen. It is nil for the operator's registry.
	Guard *dialguard.Guard
}

// String omits the credentials.
func (r Registry) String() string { return r.Host }

// GoString omits the credentials.
func (r Registry) GoString() string { return fmt.Sprintf("registry.Registry{Host: %q}", r.Host) }

// Repository returns the full name of a repository in the registry.
func (r Registry) Repository(repository string) (name.Repository, error) {
	return name.NewRepository(r.Host + "/" + repository)
}

func (r Registry) authenticator() authn.Authenticator {
	if r.Username == "" {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{Username: r.Username, Password: r.Password})
}

// split separates the host from the path that prefixes every repository.
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

// Tenant is a namespace from its creation to its deletion. A namespace that is later created under the same name is
// another tenant, without access to the images and the account of the first.
type Tenant struct {
	// Namespace is the name.
	Namespace string
	// UID is the UID of the Namespace object.
	UID string
}

// tenantDigits distinguish the few namespaces of the same name.
const tenantDigits = 8

// Account returns the name of the tenant's account in the chart's registry: the namespace, an underscore, which no
// Kubernetes name contains, and digits derived from the UID.
func (t Tenant) Account() string {
	sum := sha256.Sum256([]byte(t.UID))
	return t.Namespace + "_" + hex.EncodeToString(sum[:tenantDigits/2])
}

// Repository returns the repository of one of the tenant's Functions. No other tenant's has the same name: the names of
// namespaces and Functions contain no underscore. It has a single level, since some registries support no more.
func (t Tenant) Repository(function string) string { return RepositoryPrefix(t.Account()) + function }

// FunctionOf returns the Function that a repository belongs to, if it is a tenant's.
func FunctionOf(repository string) (namespace, function string, ok bool) {
	parts := strings.Split(repository, "_")
	if len(parts) != 3 || !IsAccount(parts[0]+"_"+parts[1]) || parts[2] == "" || strings.Contains(repository, "/") {
		return "", "", false
	}
	return parts[0], parts[2], true
}

// RepositoryPrefix returns the prefix of an account's repositories.
func RepositoryPrefix(account string) string { return account + "_" }

// IsAccount reports whether a name is a tenant's account. The controller's own account has no underscore.
func IsAccount(name string) bool {
	namespace, digits, found := strings.Cut(name, "_")
	_, err := hex.DecodeString(digits)
	return found && namespace != "" && len(digits) == tenantDigits && err == nil
}

// Password returns the password of an account of the chart's registry. It is derived from the key, which only the
// controller and the registry's proxy have, so that no list of accounts is needed.
func Password(key []byte, account string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("rouse registry account " + account))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
