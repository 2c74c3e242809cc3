package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// open are the handlers that let everyone in.
var open = []string{"noop", "allow", "no_auth"}

// access sets who is let in. Old rules could have several ways, any of which was enough; v2 has one.
func (c *converter) access(attribute string, strategies []oldHandler, rule *v2.Rule) {
	isOpen := func(strategy oldHandler) bool { return slices.Contains(open, strategy.Name) }
	switch {
	case len(strategies) == 0:
		c.note(attribute, "there are none: write noAuth, jwt or extAuth")
	case !slices.ContainsFunc(strategies, func(s oldHandler) bool { return !isOpen(s) }):
		rule.NoAuth = new(true)
	case len(strategies) > 1:
		c.note(attribute, "a rule has only one of noAuth, jwt and extAuth: use extAuth with an authorizer of your own that knows all ways")
	case strategies[0].Name == "jwt":
		rule.JWT = c.jwt(attribute+"[0].config", strategies[0].Config)
	default:
		c.note(attribute+"[0]", "the handler %q has no counterpart: use extAuth with an authorizer of your own", strategies[0].Name)
	}
}

// jwt reads a config of Kyma, which is that of v2, or of Ory Oathkeeper.
func (c *converter) jwt(attribute string, config json.RawMessage) *v2.JWT {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(config, &keys); err != nil || len(keys) == 0 {
		c.note(attribute, "it has to be an object with issuers and their keys")
		return nil
	}
	if keys["authentications"] == nil && keys["authorizations"] == nil {
		return c.oryJWT(attribute, keys)
	}
	jwt := &v2.JWT{}
	if err := decodeStrictly(config, jwt); err != nil {
		c.note(attribute, "it cannot be read: %v", err)
		return nil
	}
	return jwt
}

// oryConfig is what is read of Ory Oathkeeper's config.
type oryConfig struct {
	TrustedIssuers []string `json:"trusted_issuers"`
	JWKSURLs       []string `json:"jwks_urls"`
	RequiredScope  []string `json:"required_scope"`
	TargetAudience []string `json:"target_audience"`
	ScopeStrategy  string   `json:"scope_strategy"`
}

// oryIgnored are keys that change nothing in who is let in.
var oryIgnored = []string{"jwks_max_wait", "jwks_ttl"}

// oryJWT demands one issuer with one set of keys: which keys belonged to which issuer was never written down.
func (c *converter) oryJWT(attribute string, keys map[string]json.RawMessage) *v2.JWT {
	before := len(c.problems)
	var config oryConfig
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if slices.Contains(oryIgnored, key) {
			continue
		}
		single, err := json.Marshal(map[string]json.RawMessage{key: keys[key]})
		if err == nil {
			err = decodeStrictly(single, &config)
		}
		if err != nil {
			c.note(attribute+"."+key, "it has no counterpart, or another form than expected")
		}
	}
	if config.ScopeStrategy != "" && config.ScopeStrategy != "exact" && config.ScopeStrategy != "none" {
		c.note(attribute+".scope_strategy", "scopes are compared exactly, not by %q", config.ScopeStrategy)
	}
	c.demandOne(attribute+".trusted_issuers", config.TrustedIssuers)
	c.demandOne(attribute+".jwks_urls", config.JWKSURLs)
	if len(c.problems) > before {
		return nil
	}
	jwt := &v2.JWT{Authentications: []*v2.JWTAuthentication{{Issuer: config.TrustedIssuers[0], JWKSURI: config.JWKSURLs[0]}}}
	if len(config.RequiredScope)+len(config.TargetAudience) > 0 {
		jwt.Authorizations = []*v2.JWTAuthorization{{RequiredScopes: config.RequiredScope, Audiences: config.TargetAudience}}
	}
	return jwt
}

func (c *converter) demandOne(attribute string, values []string) {
	if len(values) != 1 {
		c.note(attribute, "there are %d: write an authentication for each issuer, with the keys of that issuer", len(values))
	}
}

func decodeStrictly(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
