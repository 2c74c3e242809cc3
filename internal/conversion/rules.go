package conversion

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func attributeOfRule(i int) string { return fmt.Sprintf(".spec.rules[%d]", i) }

// rules are all rules, or none when one of them cannot be written.
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

// group are the rules that one old rule became, with their paths as patterns.
type group struct {
	rules    []v2.Rule
	patterns []apirule.Pattern
}

// lostTo finds the first later group that would answer paths which the old rule stood for and the new ones do not: /foo(.*) became
// /foo and /foo/{**}, but was /foobar as well.
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

// answersAlike reports whether two rules differ in nothing but their paths and methods.
func answersAlike(rule, other *v2.Rule) bool {
	a, b := *rule, *other
	a.Path, a.Methods, b.Path, b.Methods = "", nil, "", nil
	return reflect.DeepEqual(a, b)
}

// rule makes one for each path that the old path stands for.
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

// request is what mutators did to requests.
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

// merge reads values as Kyma has them, or as Oathkeeper has them below a key.
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
