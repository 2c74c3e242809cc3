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

// Kinds of authentication, as spec.source.gitRepository.auth.type names them.
const (
	AuthBasic = "basic"
	AuthKey   = "key"
)

// Credentials open a private repository. The zero value means none. They never print their secrets.
type Credentials struct {
	username, password string
	key                *privateKey
	field              string // of the Secret, that has the key
	knownHosts         []byte
	fingerprint        string
}

// IsZero reports whether there are no credentials.
func (c Credentials) IsZero() bool {
	return c.username == "" && c.password == "" && c.key == nil
}

// String hides what they are.
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
// an SSH key, known_hosts may have the keys of the host. It takes no time: what would cost much is refused, and an
// encrypted key is decrypted when it is used first.
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

// checkFields makes sure that a Secret has what it must have, and of what is used no more than is read.
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
	return secretError("'%s' is no private key that can be used: %w", c.field, err)
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

// Fingerprint identifies credentials without showing them.
func (c Credentials) Fingerprint() string { return c.fingerprint }
