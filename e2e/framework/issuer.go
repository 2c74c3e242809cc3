package framework

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

const issuerName = "issuer"

// Issuer signs tokens, and a Function of its publishes the key to verify them by.
type Issuer struct {
	// URI is where the key is.
	URI string
	key ed25519.PrivateKey
}

// StartIssuer makes an Issuer in a namespace, and waits until its Function runs.
func (c *Cluster) StartIssuer(ctx context.Context, namespace string) (*Issuer, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	keys := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","use":"sig","alg":"EdDSA","kid":"e2e","x":%q}]}`,
		base64.RawURLEncoding.EncodeToString(public))
	source := "module.exports.main = function () { return " + keys + " }"
	if err := c.ApplyYAML(ctx, namespace, Function{Name: issuerName, Runtime: nodeRuntime, Source: source}.YAML()); err != nil {
		return nil, err
	}
	uri := fmt.Sprintf("http://%s.%s.svc.cluster.local/keys", issuerName, namespace)
	return &Issuer{URI: uri, key: private}, c.AwaitCondition(ctx, namespace, FunctionGVK, issuerName, "Running", "True", 2*time.Minute)
}

// Token signs one that holds for an hour, of the issuer that is called as its URI, for a subject with scopes.
func (i *Issuer) Token(subject string, scopes ...string) (string, error) {
	header, err := json.Marshal(map[string]any{"alg": "EdDSA", "kid": "e2e", "typ": "JWT"})
	if err != nil {
		return "", fmt.Errorf("encode a token's header: %w", err)
	}
	claims, err := json.Marshal(map[string]any{
		"iss": i.URI, "sub": subject, "scp": scopes, "exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("encode a token's claims: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(header) + "." + encode(claims)
	return signed + "." + encode(ed25519.Sign(i.key, []byte(signed))), nil
}
