package jwt

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const maxToken = 8 << 10

// rsaAlgorithms is how many of the algorithms are RSA's. These come first.
const rsaAlgorithms = 6

// algorithms are those of public keys.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// secretAlgorithms are known by name only, for the answer: a secret that is published is none.
var secretAlgorithms = []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}

// token is what a token claims. Nothing of it is believed before its signature was verified.
type token struct {
	raw       string
	algorithm string
	keyID     string
	claims    claims
}

// parse reads a token in compact form.
func parse(raw string) (*token, problem) {
	header, rest, _ := strings.Cut(raw, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	if header == "" || payload == "" || signature == "" || strings.Contains(signature, ".") {
		return nil, badForm
	}
	t := &token{raw: raw}
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
	if _, ok := decode(signature); !ok {
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

// decode takes no line breaks, which the decoder alone would skip.
func decode(section string) ([]byte, bool) {
	text, err := base64.RawURLEncoding.DecodeString(section)
	return text, err == nil && !strings.ContainsAny(section, "\r\n")
}

// stringOf is false for a value that is no string, or not there.
func stringOf(value jsontext.Value) (string, bool) {
	if value.Kind() != jsontext.KindString {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}
