package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/registry"
)

// Registry is where the images of some Functions are kept.
type Registry struct {
	// Secret is where this comes from.
	Secret types.NamespacedName
	// Push and Pull are host[:port][/path] for builds and for nodes.
	Push, Pull string
	// Insecure means plain HTTP.
	Insecure bool

	images *registry.Client
	config []byte
}

// Repository is the name of a Function's repository in every registry.
func Repository(fn types.NamespacedName) string { return fn.Namespace + "-" + fn.Name }

// Target is what a build pushes.
func (r *Registry) Target(repository, tag string) string {
	return r.Push + "/" + repository + ":" + tag
}

// Image is what nodes pull.
func (r *Registry) Image(repository, digest string) string {
	return r.Pull + "/" + repository + "@" + digest
}

// Has tells whether an image is one of this registry.
func (r *Registry) Has(image string) bool { return strings.HasPrefix(image, r.Pull+"/") }

// Digest asks for the digest of a tag. A tag that does not exist is no error.
func (r *Registry) Digest(ctx context.Context, repository, tag string) (digest string, found bool, err error) {
	digest, found, err = r.images.Digest(ctx, repository, tag)
	if err != nil {
		return "", false, fmt.Errorf("ask the registry of Secret %s: %w", r.Secret, err)
	}
	return digest, found, nil
}

// Images lists and deletes what the registry holds.
func (r *Registry) Images() *registry.Client { return r.images }

// DockerConfig is the file config.json of Docker with the registry's credentials.
func (r *Registry) DockerConfig() []byte { return r.config }

// String has no credentials.
func (r *Registry) String() string { return r.Push }

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
