package images

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/registry"
)

// RegistryOptions locates the installation's own registry.
type RegistryOptions struct {
	// ReleaseNamespace contains the Secrets that apply to all Functions.
	ReleaseNamespace string
	// Secret is the name of the default Secret; empty when there is none.
	Secret string
	// Guard restricts the addresses of registries that a namespace chooses.
	Guard dialguard.Guard
}

// DefaultRegistryOptions returns the options of an installation without a registry.
func DefaultRegistryOptions() RegistryOptions {
	return RegistryOptions{ReleaseNamespace: "rouse-system"}
}

// Flags implements flags.Options.
func (o *RegistryOptions) Flags(fs *flags.Set) {
	fs.String(&o.ReleaseNamespace, "release-namespace", "namespace of the installation").
		Must(len(validation.IsDNS1123Label(o.ReleaseNamespace)) == 0, "be the name of a namespace")
	fs.String(&o.Secret, "registry-secret",
		"Secret in the installation's namespace that says where images are kept; empty: no registry by default").
		Must(o.Secret == "" || len(validation.IsDNS1123Subdomain(o.Secret)) == 0, "be the name of a Secret")
}

// Resolver finds the registry of a namespace. It is safe for concurrent use.
type Resolver struct {
	metadata client.Reader
	live     client.Reader
	options  RegistryOptions
	ca       []byte

	mu   sync.Mutex
	read map[types.NamespacedName]reading
}

// reading is the result of parsing one version of a Secret.
type reading struct {
	uid      types.UID
	version  string
	registry *Location
	err      error
}

// NewResolver reads the metadata of Secrets from a cache, and their data from live. Registries may have certificates of
// the authorities in ca.
func NewResolver(metadata, live client.Reader, options RegistryOptions, ca []byte) *Resolver {
	return &Resolver{metadata: metadata, live: live, options: options, ca: ca, read: map[types.NamespacedName]reading{}}
}

// For returns the registry of a namespace's Functions, nil when there is none. The error may be an *InvalidError.
func (r *Resolver) For(ctx context.Context, namespace string) (*Location, error) {
	for _, in := range []string{namespace, r.options.ReleaseNamespace} {
		found, err := r.labelled(ctx, types.NamespacedName{Namespace: in, Name: v1alpha2.RegistrySecret})
		if found != nil || err != nil {
			return found, err
		}
	}
	return r.Default(ctx)
}

// Default returns the installation's own registry, nil when there is none.
func (r *Resolver) Default(ctx context.Context) (*Location, error) {
	if r.options.Secret == "" {
		return nil, nil //nolint:nilnil // an installation may have no registry
	}
	key := types.NamespacedName{Namespace: r.options.ReleaseNamespace, Name: r.options.Secret}
	found, err := r.getMetadata(ctx, key)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, &InvalidError{Secret: key, Problem: "it does not exist. Create it, or install without a registry"}
	}
	return r.open(ctx, key, found)
}

// Concerns reports for which Functions a Secret may choose the registry: for all, or for those of its namespace.
func (r *Resolver) Concerns(secret types.NamespacedName) (all, namespace bool) {
	known := secret.Name == v1alpha2.RegistrySecret
	all = secret.Namespace == r.options.ReleaseNamespace && (known || secret.Name == r.options.Secret)
	return all, known
}

// labelled returns the registry of a Secret, nil unless the Secret is labelled as one.
func (r *Resolver) labelled(ctx context.Context, key types.NamespacedName) (*Location, error) {
	found, err := r.getMetadata(ctx, key)
	if err != nil || found == nil || found.Labels[v1alpha2.LabelRemoteRegistry] != v1alpha2.RemoteRegistryConfig {
		return nil, err
	}
	return r.open(ctx, key, found)
}

func (r *Resolver) getMetadata(ctx context.Context, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.metadata.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(key)
		return nil, nil //nolint:nilnil // a Secret need not exist
	case err != nil:
		return nil, fmt.Errorf("look for Secret %s: %w", key, err)
	}
	return found, nil
}

// open parses a Secret unless this version of it has been parsed before.
func (r *Resolver) open(ctx context.Context, key types.NamespacedName, state *metav1.PartialObjectMetadata) (*Location, error) {
	r.mu.Lock()
	known, ok := r.read[key]
	r.mu.Unlock()
	if ok && known.uid == state.UID && known.version == state.ResourceVersion {
		return known.registry, known.err
	}
	secret := &corev1.Secret{}
	if err := r.live.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	found, err := parse(secret, r.ca, r.guardFor(key))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read[key] = reading{uid: secret.UID, version: secret.ResourceVersion, registry: found, err: err}
	return found, err
}

// guardFor returns the guard for the registry of a Secret. The installation's own registries are trusted.
func (r *Resolver) guardFor(secret types.NamespacedName) *dialguard.Guard {
	if secret.Namespace == r.options.ReleaseNamespace {
		return nil
	}
	return &r.options.Guard
}

func (r *Resolver) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.read, key)
}

// Location is the registry that holds the images of some Functions.
type Location struct {
	// Secret describes the registry.
	Secret types.NamespacedName
	// Push and Pull are host[:port][/path] for builds and for nodes.
	Push, Pull string
	// Insecure means plain HTTP.
	Insecure bool
	// Internal means that it belongs to the installation, so that unused images may be deleted.
	Internal bool

	images *registry.Client
	config []byte
	// accountKey derives the accounts of tenants; empty: all use the one in config.
	accountKey []byte

	mu sync.Mutex
	// away is the last error of a registry that did not answer. It is not queried before until.
	away  error
	until time.Time
}

// awayFor is how long a registry that did not answer is not queried again: each request may take a whole timeout, and
// many Functions send one.
const awayFor = 3 * time.Second

// Target returns the reference that a build pushes.
func (r *Location) Target(repository, tag string) string {
	return r.Push + "/" + repository + ":" + tag
}

// Image returns the reference that nodes pull.
func (r *Location) Image(repository, digest string) string {
	return r.Pull + "/" + repository + "@" + digest
}

// Has reports whether an image is in this registry.
func (r *Location) Has(image string) bool { return strings.HasPrefix(image, r.Pull+"/") }

// Holds queries whether there is an image with a digest, or with a tag, which proves nothing about its content.
func (r *Location) Holds(ctx context.Context, repository, identifier string) (bool, error) {
	if err := r.awayNow(); err != nil {
		return false, err
	}
	_, found, err := r.images.Digest(ctx, repository, identifier)
	r.note(err)
	if err != nil {
		return false, fmt.Errorf("query the registry of Secret %s: %w", r.Secret, err)
	}
	return found, nil
}

func (r *Location) awayNow() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away == nil || time.Now().After(r.until) {
		return nil
	}
	return fmt.Errorf("query the registry of Secret %s: %w", r.Secret, r.away)
}

func (r *Location) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = nil
	if errors.Is(err, registry.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		r.away, r.until = err, time.Now().Add(awayFor)
	}
}

// Images returns the client that lists and deletes images.
func (r *Location) Images() *registry.Client { return r.images }

// DockerConfig returns a Docker config.json with the credentials for builds and pods of a tenant. The chart's own
// registry has an account for each tenant, which cannot access other tenants' images.
func (r *Location) DockerConfig(tenant registry.Tenant) ([]byte, error) {
	if len(r.accountKey) == 0 {
		return r.config, nil
	}
	account := tenant.Account()
	return dockerConfig(account, registry.Password(r.accountKey, account), r.Push, r.Pull)
}

// String returns the push address, without credentials.
func (r *Location) String() string { return r.Push }

// dockerHub is the key of Docker Hub's credentials, whatever its name in image references.
const dockerHub = "https://index.docker.io/v1/"

func dockerConfig(username, password string, addresses ...string) ([]byte, error) {
	type entry struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"`
	}
	entries := map[string]entry{}
	for _, address := range addresses {
		if username == "" {
			break
		}
		credentials := entry{username, password, base64.StdEncoding.EncodeToString([]byte(username + ":" + password))}
		entries[address] = credentials
		host, _, _ := strings.Cut(address, "/")
		switch host {
		case "https:", "http:": // a full URL is used as it is
		case "docker.io", "index.docker.io", "registry-1.docker.io":
			entries[dockerHub] = credentials
		default:
			entries[host] = credentials
		}
	}
	content, err := json.Marshal(map[string]any{"auths": entries})
	if err != nil {
		return nil, fmt.Errorf("encode the credentials: %w", err)
	}
	return content, nil
}

// Keys of a registry's Secret.
const (
	keyUsername = "username"
	keyPassword = "password"
	// keyServer is the address for "docker login".
	keyServer = "serverAddress"
	// keyRegistry is the prefix of image names.
	keyRegistry = "registryAddress"
	// keyInsecure is "true" for a registry that uses plain HTTP.
	keyInsecure = "insecure"
	// An internal registry is pushed to by one name and pulled from by another.
	keyPush     = "pushRegAddr"
	keyPull     = "pullRegAddr"
	keyInternal = "isInternal"
	// keyAccounts derives the passwords of tenants' accounts in the chart's registry.
	keyAccounts = "accountKey"
)

// InvalidError describes what is wrong with a registry's Secret, and its remedy.
type InvalidError struct {
	// Secret is the Secret to correct.
	Secret types.NamespacedName
	// Problem is a sentence without its period.
	Problem string
}

// Error names the Secret.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("Secret %s with the registry is invalid: %s", e.Secret, e.Problem)
}

// parse reads a Secret. guard restricts the registry's address, nil for one that the operator chose. The error is an
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

// checkValues checks the values that are not addresses.
func checkValues(value func(key string) string) string {
	if (value(keyUsername) == "") != (value(keyPassword) == "") {
		return fmt.Sprintf("only one of the keys %s and %s is set. Set both, or neither for a registry that allows anonymous access",
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
		return fmt.Sprintf("the key %s is not the address of a registry: %v. Set it to host[:port][/path]", key, err)
	}
	return ""
}
