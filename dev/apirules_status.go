package dev

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/apirule"
)

const (
	notServed  = "correct it: until then this APIRule is not served"
	ruleClosed = "its rule answers 503: local mode has the Functions of the folder, and no authorizers"
)

// apiRuleStatus is what is known of an APIRule.
type apiRuleStatus struct {
	Namespace, Name string
	// URL of its host; empty when it is not served.
	URL string
	At  manifest.Position
}

// state is everything that is known of what is served. It does not change.
type state struct {
	rules   []apiRuleStatus
	urls    map[types.NamespacedName][]string // by Function
	decided []manifest.Problem
	closed  map[part]bool      // what is closed by them
	loaded  []manifest.Problem // those that only who serves them can see
}

// part is one of an APIRule.
type part struct {
	apiRule types.NamespacedName
	of      apirule.Closed
}

func (w wantedAPIRules) state(exposures []apirule.Exposure, port int) state {
	s := state{urls: map[types.NamespacedName][]string{}, closed: map[part]bool{}}
	for i := range exposures {
		e := &exposures[i]
		rule := w.rules[e.APIRule]
		status := apiRuleStatus{Namespace: e.APIRule.Namespace, Name: e.APIRule.Name, At: rule.At}
		if e.Host != "" {
			status.URL = fmt.Sprintf("http://%s:%d", e.Host, port)
		}
		s.rules = append(s.rules, status)
		s.decided = append(s.decided, problemsOf(rule, e.Problems)...)
		for _, problem := range e.Problems {
			s.closed[part{e.APIRule, problem.Closes}] = true
		}
		for _, each := range e.Rules {
			s.add(each, status.URL)
		}
	}
	return s
}

// add notes where a Function can be called.
func (s *state) add(rule apirule.Rule, url string) {
	if rule.Closed {
		return
	}
	path := rule.Spec.Path
	if path == "/*" {
		path = "/"
	}
	if url += path; !slices.Contains(s.urls[rule.Backend.Service], url) {
		s.urls[rule.Backend.Service] = append(s.urls[rule.Backend.Service], url)
	}
}

// problemsOf gives problems their lines. One that closes a rule alone is a warning, because the rest is served.
func problemsOf(rule manifest.APIRule, problems apirule.Problems) []manifest.Problem {
	var found []manifest.Problem
	for _, each := range problems {
		advice := notServed
		if each.Closes != apirule.All {
			advice = ruleClosed
		}
		problem := rule.Problem(each.Attribute, each.Message, advice)
		problem.Warning = each.Closes != apirule.All
		found = append(found, problem)
	}
	return found
}
