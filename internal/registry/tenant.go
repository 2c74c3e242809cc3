package registry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

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
