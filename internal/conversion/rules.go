package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func attributeOfRule(i int) string { return fmt.Sprintf(".spec.rules[%d]", i) }

// rules returns all rules, or nil when one of them cannot be converted.
func (c *converter) rules(old []oldRule) []v2.Rule {
	before := len(c.problems)
	if len(old) == 0 || len(old) > apirule.MaxRules {
		c.note(".spec.rules", "there are %d: write at least 1, and at most %d", len(old), apirule.MaxRules)
		return nil
	}
	made := make([]group, len(old))
	for i := range old {
		made[i] = c.rule(attributeOfRule(i), &old[i])
	}
	var rules []v2.Rule
	for i := range made {
		rules = append(rules, made[i].rules...)
		if later, lost := made[i].lostTo(made[i+1:]); lost {
			c.note(attributeOfRule(i)+".path", "%q stands for paths like %sx too, which rule %d would answer: write a rule for each of them",
				old[i].Path, made[i].rules[0].Path, i+1+later)
		}
	}
	if len(c.problems) > before {
		return nil
	}
	return rules
}

// group holds the rules that replace one old rule, with their paths as patterns.
type group struct {
	rules    []v2.Rule
	patterns []apirule.Pattern
}

// lostTo finds the first later group that would answer paths which the old rule matched and the new ones do not:
// /foo(.*) became /foo and /foo/{**}, but also matched /foobar.
func (g group) lostTo(later []group) (int, bool) {
	if len(g.rules) < 2 {
		return 0, false
	}
	first := &g.rules[0]
	for i := range later {
		for j := range later[i].rules {
			other := &later[i].rules[j]
			shared := apirule.MethodsOf(first.Methods...) & apirule.MethodsOf(other.Methods...)
			if shared != 0 && later[i].patterns[j].FitsLonger(first.Path) && !answersAlike(first, other) {
				return i, true
			}
		}
	}
	return 0, false
}

// answersAlike reports whether two rules differ only in their paths and methods.
func answersAlike(rule, other *v2.Rule) bool {
	a, b := *rule, *other
	a.Path, a.Methods, b.Path, b.Methods = "", nil, "", nil
	return reflect.DeepEqual(a, b)
}

// rule makes a rule for each path that the old path stands for.
func (c *converter) rule(attribute string, old *oldRule) group {
	made := v2.Rule{
		Service: service(old.Service),
		Methods: c.methods(attribute+".methods", old.Methods),
		Timeout: c.timeout(attribute+".timeout", old.Timeout),
		Request: c.request(attribute+".mutators", old.Mutators),
	}
	c.access(attribute+".accessStrategies", old.AccessStrategies, &made)
	paths := pathsOf(old.Path)
	if len(paths) == 0 {
		c.note(attribute+".path", "the regular expression %q cannot be written: use {*} for a segment, {**} for any number of them", old.Path)
	}
	var all group
	for _, path := range paths {
		pattern, err := apirule.ParsePattern(path)
		if err != nil {
			c.note(attribute+".path", "%v", err)
		}
		rule := made.DeepCopy()
		rule.Path = path
		all.rules, all.patterns = append(all.rules, *rule), append(all.patterns, pattern)
	}
	return all
}

func (c *converter) methods(attribute string, old []string) []v2.Method {
	var methods []v2.Method
	for _, name := range old {
		method := v2.Method(strings.ToUpper(name))
		if apirule.MethodsOf(method) == 0 {
			c.note(attribute, "%q is no method", name)
		}
		methods = append(methods, method)
	}
	if len(methods) == 0 {
		c.note(attribute, "there are none: write at least one")
	}
	return methods
}

// request returns the changes that mutators made to requests.
func (c *converter) request(attribute string, mutators []oldHandler) *v2.Request {
	made := &v2.Request{}
	for i, mutator := range mutators {
		attribute := fmt.Sprintf("%s[%d]", attribute, i)
		switch mutator.Name {
		case "noop":
		case "header":
			made.Headers = c.merge(made.Headers, attribute, "headers", mutator.Config)
		case "cookie":
			made.Cookies = c.merge(made.Cookies, attribute, "cookies", mutator.Config)
		default:
			c.note(attribute, "the mutator %q has no counterpart: let an authorizer of extAuth, or the Service, do its work", mutator.Name)
		}
	}
	if made.Headers == nil && made.Cookies == nil {
		return nil
	}
	return made
}

// merge accepts values in Kyma's form, or in Oathkeeper's, where they are below a key.
func (c *converter) merge(values map[string]string, attribute, key string, config json.RawMessage) map[string]string {
	var below map[string]map[string]string
	var added map[string]string
	if json.Unmarshal(config, &below) == nil && len(below) == 1 && below[key] != nil {
		added = below[key]
	} else if err := json.Unmarshal(config, &added); err != nil {
		c.note(attribute+".config", "it has to be an object of names and texts")
		return values
	}
	for name, value := range added {
		if strings.Contains(value, "{{") {
			c.note(attribute+".config", "%s has a template, which nothing evaluates any more", name)
		}
	}
	if values == nil {
		return added
	}
	maps.Copy(values, added)
	return values
}

// open are the handlers that admit every request.
var open = []string{"noop", "allow", "no_auth"}

// access sets the rule's access control. Old rules could have several strategies, any of which was enough; v2 has one.
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

// jwt converts a config of Kyma, which has the form of v2, or of Ory Oathkeeper.
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

// oryConfig contains the fields of Ory Oathkeeper's config that are converted.
type oryConfig struct {
	TrustedIssuers []string `json:"trusted_issuers"`
	JWKSURLs       []string `json:"jwks_urls"`
	RequiredScope  []string `json:"required_scope"`
	TargetAudience []string `json:"target_audience"`
	ScopeStrategy  string   `json:"scope_strategy"`
}

// oryIgnored are keys that do not affect access.
var oryIgnored = []string{"jwks_max_wait", "jwks_ttl"}

// oryJWT requires one issuer with one set of keys, because the old form did not record which keys belong to which
// issuer.
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
