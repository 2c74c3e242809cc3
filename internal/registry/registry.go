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
	// CA holds PEM certificates that are trusted in addition to those of the system.
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

// Tenant is a namespace from its creation to its deletion. One that is created under the same name later is another
// tenant, which gets neither the images nor the account of the first.
type Tenant struct {
	// Namespace is the name.
	Namespace string
	// UID is that of the Namespace object.
	UID string
}

// tenantDigits distinguish namespaces of one name. There are few of those.
const tenantDigits = 8

// Account is the name by which the tenant logs in to the chart's registry: the namespace, a mark that no name of
// Kubernetes has, so that nothing else is called so, and what identifies the UID.
func (t Tenant) Account() string {
	sum := sha256.Sum256([]byte(t.UID))
	return t.Namespace + "_" + hex.EncodeToString(sum[:tenantDigits/2])
}

// Repository is that of one of the tenant's Functions, in every registry. No other tenant's has that name: neither
// namespaces nor Functions have an underscore in theirs. It has one level, as some registries know no more.
func (t Tenant) Repository(function string) string { return RepositoryPrefix(t.Account()) + function }

// FunctionOf is the Function whose repository that is, and whether it is one of a tenant's.
func FunctionOf(repository string) (namespace, function string, ok bool) {
	parts := strings.Split(repository, "_")
	if len(parts) != 3 || !IsAccount(parts[0]+"_"+parts[1]) || parts[2] == "" || strings.Contains(repository, "/") {
		return "", "", false
	}
	return parts[0], parts[2], true
}

// RepositoryPrefix is how the repositories of an account begin.
func RepositoryPrefix(account string) string { return account + "_" }

// IsAccount reports whether a name is that of a tenant's account. The controller's own has no underscore.
func IsAccount(name string) bool {
	namespace, digits, found := strings.Cut(name, "_")
	_, err := hex.DecodeString(digits)
	return found && namespace != "" && len(digits) == tenantDigits && err == nil
}

// Password is what an account of the chart's registry logs in with. It follows from the key, which only the controller
// and the registry's proxy know, so that no list of accounts is kept.
func Password(key []byte, account string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("rouse registry account " + account))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
