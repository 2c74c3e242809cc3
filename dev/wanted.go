package dev

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
)

const (
	kindAPIRule  = "APIRule"
	kindFunction = "Function"
	// domain is that of all gateways: browsers and curl know its names as this machine's.
	domain = "localhost"
	// everyone may lead to the Functions of a folder: there are no Services to be annotated.
	everyone     = "*"
	loopbackHost = "127.0.0.1"
)

// wantedAPIRules is what the folder asks for.
type wantedAPIRules struct {
	rules     map[types.NamespacedName]manifest.APIRule
	functions map[types.NamespacedName]bool
}

// wantAPIRules reads a set and its problems. What was there before and cannot be read now goes on as it was.
func wantAPIRules(set manifest.Set, problems []manifest.Problem, before wantedAPIRules) wantedAPIRules {
	doubtful := func(kind string, name types.NamespacedName) bool {
		return slices.ContainsFunc(problems, func(p manifest.Problem) bool { return p.Concerns(kind, name.Namespace, name.Name) })
	}
	now := wantedAPIRules{rules: map[types.NamespacedName]manifest.APIRule{}, functions: map[types.NamespacedName]bool{}}
	for name, rule := range before.rules {
		if doubtful(kindAPIRule, name) {
			now.rules[name] = rule
		}
	}
	for name := range before.functions {
		if doubtful(kindFunction, name) {
			now.functions[name] = true
		}
	}
	for _, rule := range set.APIRules {
		now.rules[types.NamespacedName{Namespace: rule.Namespace, Name: rule.Name}] = rule
	}
	for _, fn := range set.Functions {
		now.functions[types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}] = true
	}
	return now
}

// decide is what the APIRules amount to. Files have no age: of two with one host the first by name has it.
func (w wantedAPIRules) decide() []apirule.Exposure {
	rules := make([]*gatewayv2.APIRule, 0, len(w.rules))
	for rule := range maps.Values(w.rules) {
		rules = append(rules, rule.APIRule)
	}
	return apirule.Decide(rules, w.cluster())
}

// cluster is what there is around the APIRules.
func (w wantedAPIRules) cluster() *apirule.Objects {
	around := &apirule.Objects{
		Gateways: map[types.NamespacedName]apirule.Gateway{}, Services: map[types.NamespacedName]apirule.ServiceInfo{},
	}
	for rule := range maps.Values(w.rules) {
		if rule.Spec.Gateway != nil {
			namespace, name, _ := strings.Cut(*rule.Spec.Gateway, "/")
			around.Gateways[types.NamespacedName{Namespace: namespace, Name: name}] = apirule.Gateway{Hosts: []string{"*." + domain}}
		}
	}
	for name := range w.functions {
		around.Services[name] = apirule.ServiceInfo{
			Selects: true, Function: true, Address: loopbackHost, Ports: []int32{activation.ServicePort}, From: []string{everyone},
		}
	}
	return around
}
