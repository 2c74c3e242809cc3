package door

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"

	"github.com/rouse-run/rouse/internal/fips"
)

// secret is a key of a Door.
type secret struct {
	name string
	key  []byte
	// public is set instead of key for signatures by a private one, and private for making those.
	public  ed25519.PublicKey
	private ed25519.PrivateKey
}

// reader reads the text of a Secret as a scheme does.
type reader func(text []byte) (secret, error)

func asText(text []byte) (secret, error) { return secret{key: text}, nil }

// asStandard reads a key of Standard Webhooks: base64, whose prefix says what it is.
func asStandard(text []byte) (secret, error) {
	content, public := strings.CutPrefix(string(text), standardPublic)
	content = strings.TrimPrefix(content, standardPrefix)
	key, err := base64.StdEncoding.DecodeString(content)
	switch {
	case public && err == nil && len(key) == ed25519.PublicKeySize:
		return secret{public: key}, nil
	case public || err != nil || len(key) < leastStandard || len(key) > mostStandard:
		return secret{}, fmt.Errorf("must be %s and the base64 of %d to %d bytes, or %s and that of a public key of ed25519",
			standardPrefix, leastStandard, mostStandard, standardPublic)
	}
	return secret{key: key}, nil
}

// readSecrets reads the keys of a Secret, which users often write with a line break at the end.
func readSecrets(keys *Keys, read reader) ([]secret, error) {
	var secrets []secret
	for _, each := range []struct {
		name string
		text []byte
	}{{KeyCurrent, keys.Current}, {KeyPrevious, keys.Previous}} {
		text := bytes.TrimRight(each.text, "\r\n")
		if len(text) == 0 {
			continue
		}
		found, err := read(text)
		if err == nil && fips.Running().Enforced && found.key != nil && len(found.key) < leastApprovedKey {
			err = fmt.Errorf("must have at least %d bytes in the strict mode of FIPS 140-3", leastApprovedKey)
		}
		if err != nil {
			return nil, fmt.Errorf("key %s of the Secret %w", each.name, err)
		}
		found.name = each.name
		secrets = append(secrets, found)
	}
	return secrets, nil
}

func secretsOf(keys *Keys, read reader) []secret {
	secrets, _ := readSecrets(keys, read)
	return secrets
}

// macOf returns the HMAC of a message in parts.
func macOf(algorithm func() hash.Hash, key []byte, message ...[]byte) []byte {
	mac := hmac.New(algorithm, key)
	for _, part := range message {
		_, _ = mac.Write(part)
	}
	return mac.Sum(nil)
}

// fits returns the name of the key by which one of the signatures is. It tries all, so that the time tells nothing.
func fits(algorithm func() hash.Hash, secrets []secret, signatures [][]byte, message ...[]byte) (string, bool) {
	found := ""
	for _, each := range secrets {
		if each.public != nil {
			continue
		}
		sum := macOf(algorithm, each.key, message...)
		for _, signature := range signatures {
			if hmac.Equal(sum, signature) && found == "" {
				found = each.name
			}
		}
	}
	return found, found != ""
}

// signedBy returns the name of the public key of whose private one a signature is.
func signedBy(secrets []secret, signatures [][]byte, message []byte) string {
	for _, each := range secrets {
		for _, signature := range signatures {
			if each.public != nil && ed25519.Verify(each.public, message, signature) {
				return each.name
			}
		}
	}
	return ""
}

// equals compares a text with each key in constant time.
func equals(secrets []secret, text string) (string, bool) {
	found := ""
	given := sha256.Sum256([]byte(text))
	for _, each := range secrets {
		want := sha256.Sum256(each.key)
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 && found == "" {
			found = each.name
		}
	}
	return found, found != ""
}
