package builder

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/rouse-run/rouse/internal/buildplan"
)

// credentials holds the credentials of registries by host, or by host and path.
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
		return nil, errors.New("read the registries' credentials: config.json does not have the format of docker login")
	}
	found := make(credentials, len(parsed.Auths))
	for address, auth := range parsed.Auths {
		found[cleanAddress(address)] = auth
	}
	return found, nil
}

// cleanAddress removes the parts of an address that only Docker writes.
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

// Resolve returns the credentials with the longest matching path, as the kubelet does.
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

const hidden = "[hidden]"

// shortestSecret is the length from which a secret can be distinguished from ordinary words.
const shortestSecret = 4

var (
	// secretSetting is a line of .npmrc or pip.conf whose value must stay secret.
	secretSetting = regexp.MustCompile(`(?im)^\s*\S*(?:_auth|_authtoken|_password|password|token|secret|certfile|keyfile|\bkey|\bcert)\s*=\s*(.+?)\s*$`)
	// secretURL matches the credentials before the host.
	secretURL = regexp.MustCompile(`://([^/\s@:]*):([^/\s@]+)@`)
)

// secrets are what is confidential in the settings of the package managers. Package managers and compilers quote files
// when they fail, and a source can have them read any: a manifest may include another file, whatever that is.
type secrets struct{ values []string }

// secrets reads the credentials of the package registry, the only ones in the container that installs packages.
func (b *Builder) secrets() secrets {
	var found secrets
	for _, name := range settings() {
		text, err := os.ReadFile(filepath.Join(b.o.Packages, name)) //nolint:gosec // the directory of the Secret
		if err != nil {
			continue // not every Secret has both
		}
		for _, setting := range secretSetting.FindAllStringSubmatch(string(text), -1) {
			found.add(strings.Trim(setting[1], `"'`))
		}
		for _, parts := range secretURL.FindAllStringSubmatch(string(text), -1) {
			found.add(parts[2])
		}
	}
	// A secret that contains another is masked first.
	slices.SortFunc(found.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return found
}

// add adds a secret and its encoded forms.
func (s *secrets) add(value string) {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if plain, err := url.PathUnescape(value); err == nil {
		forms = append(forms, plain)
	}
	if decoded, err := base64.StdEncoding.DecodeString(value); err == nil {
		forms = append(forms, string(decoded))
		if _, password, found := strings.Cut(string(decoded), ":"); found {
			forms = append(forms, password)
		}
	}
	for _, form := range forms {
		if len(form) >= shortestSecret && !slices.Contains(s.values, form) {
			s.values = append(s.values, form)
		}
	}
}

// mask masks the secrets in a text.
func (s secrets) mask(text string) string {
	for _, value := range s.values {
		text = strings.ReplaceAll(text, value, hidden)
	}
	return text
}

// hide masks the secrets in a result.
func (s secrets) hide(result buildplan.Result) buildplan.Result {
	result.Message, result.Log = s.mask(result.Message), s.mask(result.Log)
	return result
}

// writer returns a writer that masks the secrets.
func (s secrets) writer(to io.Writer) *maskedWriter { return &maskedWriter{secrets: s, to: to} }

// maskedWriter buffers whole lines, because a secret may arrive in two parts.
type maskedWriter struct {
	secrets secrets
	to      io.Writer
	line    bytes.Buffer
}

// longestLine bounds the buffer of an incomplete line.
const longestLine = 64 << 10

func (w *maskedWriter) Write(text []byte) (int, error) {
	w.line.Write(text)
	if end := bytes.LastIndexByte(w.line.Bytes(), '\n'); end >= 0 {
		return len(text), w.write(w.line.Next(end + 1))
	}
	if w.line.Len() > longestLine {
		return len(text), w.write(w.line.Next(w.line.Len()))
	}
	return len(text), nil
}

func (w *maskedWriter) write(text []byte) error {
	_, err := io.WriteString(w.to, w.secrets.mask(string(text)))
	return err
}

// flush writes the last, incomplete line.
func (w *maskedWriter) flush() { _ = w.write(w.line.Next(w.line.Len())) }
