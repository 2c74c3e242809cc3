package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // for hashes
	_ "crypto/sha512"
	"encoding/base64"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const maxToken = 8 << 10

// rsaAlgorithms is the number of RSA algorithms, which come first.
const rsaAlgorithms = 6

// algorithms are the algorithms of public keys.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// secretAlgorithms are recognized only for the error: a published secret is not secret.
var secretAlgorithms = []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}

// token is the claims of a token. Nothing of it is trusted before its signature is verified.
type token struct {
	signed    string // what the signature is of
	signature []byte
	algorithm string
	keyID     string
	claims    claims
}

// parse parses a token in compact form.
func parse(raw string) (*token, problem) {
	header, rest, _ := strings.Cut(raw, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	if header == "" || payload == "" || signature == "" || strings.Contains(signature, ".") {
		return nil, badForm
	}
	t := &token{signed: raw[:len(raw)-len(signature)-1]}
	if why := t.readHeader(header); why != "" {
		return nil, why
	}
	text, ok := decode(payload)
	if !ok {
		return nil, badPayloadEncoding
	}
	var why problem
	if t.claims, why = parseClaims(text); why != "" {
		return nil, why
	}
	if t.signature, ok = decode(signature); !ok {
		return nil, badSignatureText
	}
	return t, ""
}

func (t *token) readHeader(section string) problem {
	text, ok := decode(section)
	if !ok {
		return badHeaderEncoding
	}
	var header struct {
		Algorithm jsontext.Value `json:"alg"`
		KeyID     jsontext.Value `json:"kid"`
		Critical  jsontext.Value `json:"crit"`
		Encoded   jsontext.Value `json:"b64"`
	}
	if json.Unmarshal(text, &header) != nil {
		return badHeader
	}
	if t.algorithm, ok = stringOf(header.Algorithm); !ok {
		return badAlgorithm
	}
	named := jose.SignatureAlgorithm(t.algorithm)
	if !slices.Contains(algorithms, named) && !slices.Contains(secretAlgorithms, named) {
		return unknownAlgorithm
	}
	if t.keyID, ok = stringOf(header.KeyID); !ok && header.KeyID != nil {
		return badKeyID
	}
	if header.Critical != nil || header.Encoded != nil {
		return extension
	}
	return ""
}

// signedBy reports whether the token has a signature by the private key of a public one, whose type fits the algorithm.
func (t *token) signedBy(public crypto.PublicKey) bool {
	if key, ok := public.(ed25519.PublicKey); ok {
		return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(t.signed), t.signature)
	}
	hash := hashes[t.algorithm[len(t.algorithm)-3:]]
	if hash == 0 {
		return false
	}
	hasher := hash.New()
	_, _ = io.WriteString(hasher, t.signed) // it does not fail
	digest := hasher.Sum(nil)
	switch key := public.(type) {
	case *rsa.PublicKey:
		if strings.HasPrefix(t.algorithm, "PS") {
			return rsa.VerifyPSS(key, hash, digest, t.signature, nil) == nil
		}
		return rsa.VerifyPKCS1v15(key, hash, digest, t.signature) == nil
	case *ecdsa.PublicKey:
		size := (key.Curve.Params().BitSize + 7) / 8
		return len(t.signature) == 2*size &&
			ecdsa.Verify(key, digest, new(big.Int).SetBytes(t.signature[:size]), new(big.Int).SetBytes(t.signature[size:]))
	}
	return false
}

// hashes maps the end of an algorithm's name to its hash.
var hashes = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}

// decode rejects line breaks, which the decoder would skip.
func decode(section string) ([]byte, bool) {
	text, err := base64.RawURLEncoding.DecodeString(section)
	return text, err == nil && !strings.ContainsAny(section, "\r\n")
}

// stringOf returns false for a value that is missing or not a string.
func stringOf(value jsontext.Value) (string, bool) {
	if value.Kind() != jsontext.KindString {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

// skew is the accepted clock difference between an issuer and this process, in seconds.
const skew = 60

// never is the end of a lifetime without an end.
const never = math.MaxInt64

// lifetime is from nbf to exp, in seconds since 1970.
type lifetime struct {
	notBefore, expires int64
}

func (l lifetime) problemAt(now time.Time) problem {
	switch seconds := now.Unix(); {
	case seconds+skew < l.notBefore:
		return notYetValid
	case seconds-skew > l.expires:
		return expired
	}
	return ""
}

// claims are the claims that rules evaluate.
type claims struct {
	lifetime

	issuer, subject string
	audiences       []string
	scopes          [3][]string // of the claims scp, scope and scopes
}

// parseClaims rejects duplicate members at any depth: another reader could use the other one.
func parseClaims(payload []byte) (claims, problem) {
	var raw struct {
		Issuer    jsontext.Value `json:"iss"`
		Subject   jsontext.Value `json:"sub"`
		Audience  jsontext.Value `json:"aud"`
		Expires   jsontext.Value `json:"exp"`
		NotBefore jsontext.Value `json:"nbf"`
		SCP       jsontext.Value `json:"scp"`
		Scope     jsontext.Value `json:"scope"`
		Scopes    jsontext.Value `json:"scopes"`
	}
	if json.Unmarshal(payload, &raw) != nil {
		return claims{}, badPayload
	}
	var (
		c   claims
		ok  bool
		why problem
	)
	if c.issuer, ok = stringOf(raw.Issuer); !ok && raw.Issuer != nil {
		return claims{}, badIssuer
	}
	if c.subject, ok = stringOf(raw.Subject); !ok && raw.Subject != nil {
		return claims{}, badSubject
	}
	if c.audiences, ok = audiencesOf(raw.Audience); !ok {
		return claims{}, badAudience
	}
	if c.notBefore, why = secondsOf(raw.NotBefore, 0, nbfNoInteger, nbfOutOfRange); why != "" {
		return claims{}, why
	}
	if c.expires, why = secondsOf(raw.Expires, never, expNoInteger, expOutOfRange); why != "" {
		return claims{}, why
	}
	for i, value := range []jsontext.Value{raw.SCP, raw.Scope, raw.Scopes} {
		c.scopes[i] = scopesOf(value)
	}
	return c, ""
}

// secondsOf parses a time without its fraction.
func secondsOf(value jsontext.Value, absent int64, noNumber, outOfRange problem) (int64, problem) {
	switch {
	case value == nil:
		return absent, ""
	case value.Kind() != jsontext.KindNumber:
		return 0, noNumber
	}
	number, err := strconv.ParseFloat(string(value), 64)
	if err != nil || number < 0 || number >= never {
		return 0, outOfRange
	}
	return int64(number), ""
}

// audiencesOf parses a string or a list of strings.
func audiencesOf(value jsontext.Value) ([]string, bool) {
	if value == nil {
		return nil, true
	}
	if one, ok := stringOf(value); ok {
		return []string{one}, true
	}
	var all []string
	if value.Kind() != jsontext.KindBeginArray || json.Unmarshal(value, &all) != nil {
		return nil, false
	}
	return all, true
}

// scopesOf splits a string at spaces, and returns the strings of a list as they are. Other forms have no scopes.
func scopesOf(value jsontext.Value) []string {
	if one, ok := stringOf(value); ok {
		return strings.Split(one, " ")
	}
	var elements []jsontext.Value
	if value.Kind() != jsontext.KindBeginArray || json.Unmarshal(value, &elements) != nil {
		return nil
	}
	var scopes []string
	for _, element := range elements {
		if scope, ok := stringOf(element); ok {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
