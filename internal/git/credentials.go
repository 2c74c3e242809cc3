package git

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Kinds of authentication, as spec.source.gitRepository.auth.type names them.
const (
	AuthBasic = "basic"
	AuthKey   = "key"
)

// Credentials open a private repository. The zero value is none. They print nothing of themselves.
type Credentials struct {
	username, password string
	privateKey         []byte
	passphrase         string
	knownHosts         []byte
}

// IsZero reports whether there are none.
func (c Credentials) IsZero() bool {
	return c.username == "" && c.password == "" && len(c.privateKey) == 0
}

// String hides what they are.
func (c Credentials) String() string {
	switch {
	case c.IsZero():
		return "no credentials"
	case len(c.privateKey) > 0:
		return "an SSH key"
	default:
		return "a username and a password"
	}
}

// GoString hides what they are.
func (c Credentials) GoString() string { return "git.Credentials{" + c.String() + "}" }

// LogValue hides what they are.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Format hides what they are from every verb, since some look into values.
func (c Credentials) Format(state fmt.State, verb rune) {
	text := c.String()
	if verb == 'v' && state.Flag('#') {
		text = c.GoString()
	}
	_, _ = io.WriteString(state, text)
}

// Types of Secrets that Kubernetes defines for the purpose.
const (
	typeBasic = "kubernetes.io/basic-auth"
	typeSSH   = "kubernetes.io/ssh-auth"
)

// Keys of the Secrets.
const (
	keyUsername   = "username"
	keyPassword   = "password"
	keyKey        = "key"
	keySSH        = "ssh-privatekey"
	keyKnownHosts = "known_hosts"
)

// ParseSecret reads the forms of Secrets that Kyma takes: kubernetes.io/basic-auth, kubernetes.io/ssh-auth,
// and any other type with the keys username and password, or key and, for its passphrase, password. Beside
// an SSH key, known_hosts may have the keys of the host.
func ParseSecret(authType, secretType string, data map[string][]byte) (Credentials, error) {
	if (secretType == typeBasic && authType != AuthBasic) || (secretType == typeSSH && authType != AuthKey) {
		return Credentials{}, fmt.Errorf("while parsing git authorization secret: inconsistent secret type: %s does not fit auth.type %s",
			secretType, authType)
	}
	missing := func(field string) error {
		return fmt.Errorf("while parsing git authorization secret: missing '%s'", field)
	}
	if authType == AuthBasic {
		for _, field := range []string{keyUsername, keyPassword} {
			if len(data[field]) == 0 {
				return Credentials{}, missing(field)
			}
		}
		return Credentials{username: string(data[keyUsername]), password: string(data[keyPassword])}, nil
	}
	field := keyKey
	if secretType == typeSSH {
		field = keySSH
	}
	if len(data[field]) == 0 {
		return Credentials{}, missing(field)
	}
	found := Credentials{privateKey: data[field], knownHosts: data[keyKnownHosts]}
	if secretType != typeSSH {
		found.passphrase = string(data[keyPassword])
	}
	if _, err := found.signer(); err != nil {
		return Credentials{}, fmt.Errorf("while parsing git authorization secret: '%s' is no private key: %w", field, err)
	}
	return found, nil
}

// ReadDir reads a mounted Secret of any of these forms.
func ReadDir(authType, dir string) (Credentials, error) {
	if authType == "" {
		return Credentials{}, nil
	}
	data := map[string][]byte{}
	for _, key := range []string{keyUsername, keyPassword, keyKey, keySSH, keyKnownHosts} {
		content, err := os.ReadFile(filepath.Join(dir, key)) //nolint:gosec // dir is where the Secret is mounted
		switch {
		case err == nil:
			data[key] = content
		case !errors.Is(err, fs.ErrNotExist):
			return Credentials{}, fmt.Errorf("read git credentials: %w", err)
		}
	}
	secretType := ""
	if len(data[keySSH]) > 0 {
		secretType = typeSSH
	}
	return ParseSecret(authType, secretType, data)
}

func (c Credentials) signer() (ssh.Signer, error) {
	key := append([]byte(strings.TrimSpace(string(c.privateKey))), '\n') // what editors and YAML do to the end of a key
	if c.passphrase != "" {
		return ssh.ParsePrivateKeyWithPassphrase(key, []byte(c.passphrase))
	}
	return ssh.ParsePrivateKey(key)
}

// Fingerprint identifies credentials without showing them.
func (c Credentials) Fingerprint() string {
	hash := sha256.New()
	for _, part := range [][]byte{[]byte(c.username), []byte(c.password), c.privateKey, []byte(c.passphrase), c.knownHosts} {
		hash.Write(fmt.Appendf(nil, "%d:%s", len(part), part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}
