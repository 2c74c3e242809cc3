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
)

// Types of authentication, as in spec.source.gitRepository.auth.type.
const (
	AuthBasic = "basic"
	AuthKey   = "key"
)

// Credentials are the credentials for a private repository. The zero value is none. They never print their secrets.
type Credentials struct {
	username, password string
	key                *privateKey
	field              string // of the Secret that contains the key
	knownHosts         []byte
	fingerprint        string
}

// IsZero reports whether there are no credentials.
func (c Credentials) IsZero() bool {
	return c.username == "" && c.password == "" && c.key == nil
}

// String returns a description without secrets.
func (c Credentials) String() string {
	switch {
	case c.IsZero():
		return "no credentials"
	case c.key != nil:
		return "an SSH key"
	default:
		return "a username and a password"
	}
}

// GoString returns a description without secrets.
func (c Credentials) GoString() string { return "git.Credentials{" + c.String() + "}" }

// LogValue returns a description without secrets.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Format prints a description without secrets for every verb, since some print fields.
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

// ParseSecret accepts the forms of Secrets that Kyma accepts: kubernetes.io/basic-auth, kubernetes.io/ssh-auth, and any
// other type with the keys username and password, or key and, for its passphrase, password. A Secret with an SSH key
// may contain the keys of the host in known_hosts. ParseSecret is cheap: it rejects expensive keys, and an encrypted
// key is decrypted at its first use.
func ParseSecret(authType, secretType string, data map[string][]byte) (Credentials, error) {
	if (secretType == typeBasic && authType != AuthBasic) || (secretType == typeSSH && authType != AuthKey) {
		return Credentials{}, secretError("inconsistent secret type: %s does not fit auth.type %s", secretType, authType)
	}
	if authType == AuthBasic {
		used := []string{keyUsername, keyPassword}
		if err := checkFields(data, used, used); err != nil {
			return Credentials{}, err
		}
		return Credentials{
			username: string(data[keyUsername]), password: string(data[keyPassword]), fingerprint: fingerprint(data, used),
		}, nil
	}
	used, passphrase := []string{keyKey, keyPassword, keyKnownHosts}, string(data[keyPassword])
	if secretType == typeSSH {
		used, passphrase = []string{keySSH, keyKnownHosts}, ""
	}
	if err := checkFields(data, used, used[:1]); err != nil {
		return Credentials{}, err
	}
	found := Credentials{field: used[0], knownHosts: data[keyKnownHosts], fingerprint: fingerprint(data, used)}
	var err error
	if found.key, err = readKey(data[found.field], passphrase); err != nil {
		return Credentials{}, found.refused(err)
	}
	return found, nil
}

// checkFields reports missing required fields, and used fields that are too long.
func checkFields(data map[string][]byte, used, needed []string) error {
	for _, field := range needed {
		if len(data[field]) == 0 {
			return secretError("missing '%s'", field)
		}
	}
	for _, field := range used {
		most := maxField
		if field == keyKnownHosts {
			most = maxKnownHosts
		}
		if size := len(data[field]); size > most {
			return secretError("'%s' has %d bytes, and at most %d are read. Shorten it", field, size, most)
		}
	}
	return nil
}

func (c Credentials) refused(err error) error {
	return secretError("'%s' is not a usable private key: %w", c.field, err)
}

func secretError(format string, args ...any) error {
	err := fmt.Errorf("while parsing git authorization secret: "+format, args...)
	return &Error{Kind: Secret, Message: err.Error(), err: err}
}

func fingerprint(data map[string][]byte, used []string) string {
	hash := sha256.New()
	for _, field := range used {
		hash.Write(fmt.Appendf(nil, "%s %d:%s", field, len(data[field]), data[field]))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// ReadDir reads a mounted Secret in one of these forms.
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

// Fingerprint identifies credentials without revealing them.
func (c Credentials) Fingerprint() string { return c.fingerprint }
