package images

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/registry"
)

// Location is where the images of some Functions are kept.
type Location struct {
	// Secret is where this comes from.
	Secret types.NamespacedName
	// Push and Pull are host[:port][/path] for builds and for nodes.
	Push, Pull string
	// Insecure means plain HTTP.
	Insecure bool
	// Internal means that it belongs to the installation, so that unused images may be deleted.
	Internal bool

	images *registry.Client
	config []byte
	// accountKey is what the accounts of tenants follow from; empty: all use the one in config.
	accountKey []byte

	mu sync.Mutex
	// away is the last error of a registry that did not answer, until when it is
	// not asked again.
	away  error
	until time.Time
}

// awayFor is how long a registry that did not answer is not asked again: each request may take as long as a timeout,
// and many Functions make one.
const awayFor = 3 * time.Second

// Target is what a build pushes.
func (r *Location) Target(repository, tag string) string {
	return r.Push + "/" + repository + ":" + tag
}

// Image is what nodes pull.
func (r *Location) Image(repository, digest string) string {
	return r.Pull + "/" + repository + "@" + digest
}

// Has reports whether an image is one of this registry.
func (r *Location) Has(image string) bool { return strings.HasPrefix(image, r.Pull+"/") }

// Holds asks whether there is an image of a digest, or of a tag, which proves nothing about it.
func (r *Location) Holds(ctx context.Context, repository, identifier string) (bool, error) {
	if err := r.awayNow(); err != nil {
		return false, err
	}
	_, found, err := r.images.Digest(ctx, repository, identifier)
	r.note(err)
	if err != nil {
		return false, fmt.Errorf("ask the registry of Secret %s: %w", r.Secret, err)
	}
	return found, nil
}

func (r *Location) awayNow() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away == nil || time.Now().After(r.until) {
		return nil
	}
	return fmt.Errorf("ask the registry of Secret %s: %w", r.Secret, r.away)
}

func (r *Location) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = nil
	if errors.Is(err, registry.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		r.away, r.until = err, time.Now().Add(awayFor)
	}
}

// Images lists and deletes what the registry holds.
func (r *Location) Images() *registry.Client { return r.images }

// DockerConfig is the file config.json of Docker with the credentials by which builds and pods of a tenant reach the
// registry. The chart's own has an account for each tenant, which sees no other tenant's images.
func (r *Location) DockerConfig(tenant registry.Tenant) ([]byte, error) {
	if len(r.accountKey) == 0 {
		return r.config, nil
	}
	account := tenant.Account()
	return dockerConfig(account, registry.Password(r.accountKey, account), r.Push, r.Pull)
}

// String has no credentials.
func (r *Location) String() string { return r.Push }

// dockerHub is how Docker Hub's credentials are filed, whatever it is called in the names of images.
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
		case "https:", "http:": // the full form, which stands for itself
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
