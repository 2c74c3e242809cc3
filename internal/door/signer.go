package door

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const standardPrivate = "whsk_"

// Signer signs what is sent to others by https://www.standardwebhooks.com. It is immutable.
type Signer struct{ secrets []secret }

// NewSigner returns a Signer by both keys of a Secret, so that a receiver that knows either takes the request. keys is nil while the
// Secret is missing.
func NewSigner(keys *Keys) (*Signer, error) {
	if keys == nil || len(keys.Current) == 0 {
		return nil, ErrNoSecret
	}
	secrets, err := readSecrets(keys, asSigning)
	if err != nil {
		return nil, err
	}
	return &Signer{secrets}, nil
}

// asSigning reads a key that signs: a shared one, or a private one of ed25519, as its 64 bytes or the 32 that it is made from.
func asSigning(text []byte) (secret, error) {
	content, private := strings.CutPrefix(string(text), standardPrivate)
	if !private {
		found, err := asStandard(text)
		if found.public != nil || err != nil {
			return secret{}, errors.New(signingForm)
		}
		return found, nil
	}
	key, err := base64.StdEncoding.DecodeString(content)
	switch {
	case err == nil && len(key) == ed25519.SeedSize:
		return secret{private: ed25519.NewKeyFromSeed(key)}, nil
	case err == nil && len(key) == ed25519.PrivateKeySize:
		return secret{private: key}, nil
	default:
		return secret{}, errors.New(signingForm)
	}
}

var signingForm = fmt.Sprintf("must be %s and the base64 of %d to %d bytes, or %s and that of a private key of ed25519",
	standardPrefix, leastStandard, mostStandard, standardPrivate)

// Sign sets the headers of a request. All attempts to deliver the same have the same id, which has no dot; each is signed with its
// own time.
func (s *Signer) Sign(header http.Header, id string, at time.Time, body []byte) {
	sent := strconv.FormatInt(at.Unix(), 10)
	message := append([]byte(id+"."+sent+"."), body...)
	signatures := make([]string, len(s.secrets))
	for i, each := range s.secrets {
		if each.private != nil {
			signatures[i] = "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(each.private, message))
			continue
		}
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(macOf(sha256.New, each.key, message))
	}
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", sent)
	header.Set("Webhook-Signature", strings.Join(signatures, " "))
}
