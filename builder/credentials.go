package builder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// credentials of registries, by their host, or by host and path.
type credentials map[string]authn.AuthConfig

// readCredentials reads the config.json that the kubelet would use. Without one, registries are asked
// anonymously.
func readCredentials(dir string) (credentials, error) {
	text, err := os.ReadFile(filepath.Join(dir, "config.json")) //nolint:gosec // the operator's own directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the registries' credentials: %w", err)
	}
	var parsed struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, errors.New("the registries' credentials, config.json, are not what docker login writes")
	}
	found := make(credentials, len(parsed.Auths))
	for address, auth := range parsed.Auths {
		found[cleanAddress(address)] = auth
	}
	return found, nil
}

// cleanAddress takes the parts away that only Docker writes.
func cleanAddress(address string) string {
	if _, rest, found := strings.Cut(address, "://"); found {
		address = rest
	}
	address = strings.TrimRight(address, "/")
	for _, version := range []string{"/v1", "/v2"} {
		address = strings.TrimSuffix(address, version)
	}
	if address == "docker.io" {
		return name.DefaultRegistry
	}
	return address
}

// Resolve finds the credentials with the longest path that fits, as the kubelet does.
func (c credentials) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	for at := resource.String(); at != "." && at != ""; {
		if auth, found := c[at]; found {
			return authn.FromConfig(auth), nil
		}
		slash := strings.LastIndexByte(at, '/')
		if slash < 0 {
			break
		}
		at = at[:slash]
	}
	return authn.Anonymous, nil
}
