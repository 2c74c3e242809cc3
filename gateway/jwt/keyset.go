package jwt

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxKeys    = 100
	minRSABits = 2048
	maxRSABits = 8192
	// maxExponent is the usual exponent. Larger ones make a verification cost several times as much.
	maxExponent = 65537
)

var (
	errNoKeySet = errors.New("the response is not a JSON Web Key Set: jwksUri must be that of the issuer's keys, often found as jwks_uri " +
		"in its /.well-known/openid-configuration")
	errManyKeys = errors.New("the key set has more than 100 keys")
	errNoKeys   = errors.New("the key set has no key for signatures that is RSA of 2048 to 8192 bits, EC P-256, P-384, P-521 or Ed25519")
	errOfNoUse  = errors.New("the key is of no use for signatures, or too weak")
	errExponent = errors.New("an RSA key has an exponent larger than 65537: the issuer has to make keys with 65537")
)

// key is a public key and its declared use.
type key struct {
	id, algorithm string
	public        crypto.PublicKey
}

// keySet is the content of a URI at one time. It is immutable.
type keySet struct {
	keys       []key
	refused    error  // why a signing key is left out
	generation uint64 // unique in the process
}

// parseKeySet leaves out keys that are not for signatures, or too weak.
func parseKeySet(body []byte) (*keySet, error) {
	var raw struct {
		Keys *[]jsontext.Value `json:"keys"`
	}
	switch err := json.Unmarshal(body, &raw); {
	case err != nil || raw.Keys == nil:
		return nil, errNoKeySet
	case len(*raw.Keys) > maxKeys:
		return nil, errManyKeys
	}
	set := &keySet{}
	for _, text := range *raw.Keys {
		switch k, err := parseKey(text); {
		case err == nil:
			set.keys = append(set.keys, k)
		case errors.Is(err, errExponent):
			set.refused = err
		}
	}
	if len(set.keys) == 0 {
		return nil, cmp.Or(set.refused, errNoKeys)
	}
	return set, nil
}

// publicMembers are the members of a public key. Certificates and URLs are not read.
type publicMembers struct {
	Type  string `json:"kty"`
	Curve string `json:"crv,omitzero"`
	N     string `json:"n,omitzero"`
	E     string `json:"e,omitzero"`
	X     string `json:"x,omitzero"`
	Y     string `json:"y,omitzero"`
}

// description is the declared use of a key.
type description struct {
	ID         string         `json:"kid"`
	Algorithm  string         `json:"alg"`
	Use        string         `json:"use"`
	Operations []string       `json:"key_ops"`
	Secret     jsontext.Value `json:"k"`
	Private    jsontext.Value `json:"d"`
}

// verifies returns false for secrets, for private keys, which are public now, and for keys that are not for signatures.
func (d *description) verifies() bool {
	return d.Secret == nil && d.Private == nil && (d.Use == "" || d.Use == "sig") &&
		(d.Operations == nil || slices.Contains(d.Operations, "verify"))
}

func parseKey(text jsontext.Value) (key, error) {
	var (
		about   description
		members publicMembers
		parsed  jose.JSONWebKey
	)
	if json.Unmarshal(text, &about) != nil || json.Unmarshal(text, &members) != nil || !about.verifies() {
		return key{}, errOfNoUse
	}
	if members.costly() {
		return key{}, errExponent
	}
	public, err := json.Marshal(&members)
	if err != nil || parsed.UnmarshalJSON(public) != nil || !parsed.IsPublic() || !parsed.Valid() {
		return key{}, errOfNoUse
	}
	k := key{id: about.ID, algorithm: about.Algorithm, public: parsed.Key}
	if !k.strong() || k.algorithm != "" && !k.fits(k.algorithm) {
		return key{}, errOfNoUse
	}
	return k, nil
}

// costly reads the exponent itself: a parsed one was truncated to 64 bits.
func (m *publicMembers) costly() bool {
	exponent, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(m.E, "="))
	return err == nil && m.Type == "RSA" && new(big.Int).SetBytes(exponent).Cmp(big.NewInt(maxExponent)) > 0
}

func (k *key) strong() bool {
	if public, ok := k.public.(*rsa.PublicKey); ok {
		return public.N.BitLen() >= minRSABits && public.N.BitLen() <= maxRSABits
	}
	return true
}

// curves are the curves of the elliptic curve algorithms.
var curves = map[string]elliptic.Curve{
	string(jose.ES256): elliptic.P256(), string(jose.ES384): elliptic.P384(), string(jose.ES512): elliptic.P521(),
}

// fits reports whether an algorithm is for keys of this type.
func (k *key) fits(algorithm string) bool {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return slices.Contains(algorithms[:rsaAlgorithms], jose.SignatureAlgorithm(algorithm))
	case *ecdsa.PublicKey:
		return public.Curve == curves[algorithm]
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}

// matches compares kid and alg of key and token. One that either of them lacks does not differ.
func (k *key) matches(t *token) bool {
	return (k.id == t.keyID || k.id == "" || t.keyID == "") && (k.algorithm == t.algorithm || k.algorithm == "")
}

// has reports whether a key has this kid.
func (s *keySet) has(kid string) bool {
	return kid != "" && slices.ContainsFunc(s.keys, func(k key) bool { return k.id == kid })
}

func (s *keySet) equal(other *keySet) bool {
	return errors.Is(s.refused, other.refused) && slices.EqualFunc(s.keys, other.keys, func(a, b key) bool {
		public, ok := a.public.(interface {
			Equal(other crypto.PublicKey) bool
		})
		return a.id == b.id && a.algorithm == b.algorithm && ok && public.Equal(b.public)
	})
}

const (
	// maxTries bounds the signatures that are computed for one token, whoever owns the keys: all keys without a kid
	// match.
	maxTries = 10
	// turnTimeout bounds how long a token may wait to be verified.
	turnTimeout = 5 * time.Second
)

// search looks for the key by which a token was signed.
type search struct {
	token *token
	tries int // remaining tries
	why   problem

	named, others []candidate // with and without the token's kid
}

// candidate is a key that may match.
type candidate struct {
	key            *key
	authentication int
	generation     uint64
}

// add adds the keys of a set that match the token.
func (s *search) add(set *keySet, authentication int) {
	for i := range set.keys {
		k := &set.keys[i]
		if !k.matches(s.token) {
			continue
		}
		s.why = badSignature
		each := candidate{key: k, authentication: authentication, generation: set.generation}
		switch {
		case !k.fits(s.token.algorithm):
		case k.id == s.token.keyID:
			s.named = append(s.named, each)
		default:
			s.others = append(s.others, each)
		}
	}
	if s.why == keysMissing {
		s.why = unknownKey
	}
}

// try verifies the token with the candidates, up to the limit, each in the namespace's turn: an invalid token costs as
// much as a valid one.
func (k *Keys) try(ctx context.Context, namespace string, s *search) (found candidate, ok bool, why problem) {
	all := slices.Concat(s.named, s.others)
	all = all[:min(len(all), s.tries)]
	s.tries -= len(all)
	s.named, s.others = nil, nil
	if len(all) == 0 {
		return candidate{}, false, s.why
	}
	until := time.Now().Add(turnTimeout)
	for _, each := range all {
		if !k.awaitTurn(ctx, namespace, until) {
			return candidate{}, false, busy
		}
		if k.verifies(s.token, each.key, namespace) {
			return each, true, ""
		}
	}
	return candidate{}, false, s.why
}

func (k *Keys) awaitTurn(ctx context.Context, namespace string, until time.Time) bool {
	if k.turns.TryAcquire(namespace, 1) {
		return true
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return k.turns.Acquire(ctx.Done(), namespace, 1) == nil
}

// verifies ends the turn and charges the namespace for it.
func (k *Keys) verifies(t *token, by *key, namespace string) bool {
	defer k.turns.Release(namespace, 1)
	began := time.Now()
	ok := t.signedBy(by.public)
	k.turns.Charge(namespace, int64(time.Since(began)))
	return ok
}
