package images

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/registry"
)

// Keys of a registry's Secret.
const (
	keyUsername = "username"
	keyPassword = "password"
	// keyServer is what "docker login" takes.
	keyServer = "serverAddress"
	// keyRegistry is what the names of images begin with.
	keyRegistry = "registryAddress"
	// keyInsecure is "true" for a registry that speaks plain HTTP.
	keyInsecure = "insecure"
	// An internal registry is pushed to by one name and pulled from by another.
	keyPush     = "pushRegAddr"
	keyPull     = "pullRegAddr"
	keyInternal = "isInternal"
	// keyAccounts is what the passwords of tenants' accounts follow from, in the chart's registry.
	keyAccounts = "accountKey"
)

// InvalidError says what is wrong with a registry's Secret, and what to do.
type InvalidError struct {
	// Secret is the one to repair.
	Secret types.NamespacedName
	// Problem is a sentence without its end.
	Problem string
}

// Error names the Secret.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("Secret %s, which says where images are kept, cannot be used: %s", e.Secret, e.Problem)
}

// parse reads a Secret. The registry is reached within the guard, nil for one that the operator names. The error is an
// *InvalidError.
func parse(secret *corev1.Secret, ca []byte, guard *dialguard.Guard) (*Location, error) {
	at := client.ObjectKeyFromObject(secret)
	invalid := func(format string, args ...any) error {
		return &InvalidError{Secret: at, Problem: fmt.Sprintf(format, args...)}
	}
	value := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }

	internal := value(keyInternal) == "true"
	pushKey, pullKey := keyRegistry, keyRegistry
	if internal {
		pushKey, pullKey = keyPush, keyPull
	}
	for _, key := range []string{pushKey, pullKey} {
		if value(key) == "" {
			return nil, invalid("the key %s is missing. Set it to the address of the registry, such as registry.example.com:5000 "+
				"or docker.io/user", key)
		}
	}
	username, password := value(keyUsername), value(keyPassword)
	if problem := checkValues(value); problem != "" {
		return nil, invalid("%s", problem)
	}
	found := &Location{
		Secret: at, Push: strings.TrimSuffix(value(pushKey), "/"), Pull: strings.TrimSuffix(value(pullKey), "/"),
		Insecure: internal || value(keyInsecure) == "true", Internal: internal,
	}
	for key, address := range map[string]string{pushKey: found.Push, pullKey: found.Pull} {
		if problem := checkAddress(key, address, ca); problem != "" {
			return nil, invalid("%s", problem)
		}
	}
	asked, err := registry.New(registry.Registry{
		Host: found.Push, Username: username, Password: password, Insecure: found.Insecure, CA: ca, Guard: guard,
	})
	if err != nil {
		return nil, invalid("%v", err)
	}
	found.images = asked
	if internal {
		found.accountKey = []byte(value(keyAccounts))
	}
	found.config, err = dockerConfig(username, password, cmp.Or(value(keyServer), found.Push), found.Push, found.Pull)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return found, nil
}

// checkValues checks what is no address.
func checkValues(value func(key string) string) string {
	if (value(keyUsername) == "") != (value(keyPassword) == "") {
		return fmt.Sprintf("of the keys %s and %s only one is set. Set both, or neither for a registry that allows anonymous access",
			keyUsername, keyPassword)
	}
	for _, key := range []string{keyInsecure, keyInternal} {
		if flag := value(key); flag != "" && flag != "true" && flag != "false" {
			return fmt.Sprintf("the key %s is %q. Set it to true or false", key, flag)
		}
	}
	return ""
}

func checkAddress(key, address string, ca []byte) string {
	if strings.Contains(address, "://") {
		return fmt.Sprintf("the key %s is a whole URL. Leave out what comes before the host; for plain HTTP set %s to true",
			key, keyInsecure)
	}
	if _, err := registry.New(registry.Registry{Host: address, CA: ca}); err != nil {
		return fmt.Sprintf("the key %s is no address of a registry: %v. Set it to host[:port][/path]", key, err)
	}
	return ""
}
