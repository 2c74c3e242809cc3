package apirule

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/door"
)

// doorPrefix begins the names of APIRules that stand for Doors. No APIRule can have such a name.
const doorPrefix = "door/"

// doorTimeout bounds the time to a response of a Door, in seconds. Providers wait for less.
const doorTimeout = v2.Timeout(30)

// DoorRules are the APIRules that stand for Doors: one for each host of a namespace, so that hosts belong to the same owners, are served
// by the same gateways and reported in the same way.
type DoorRules struct {
	Rules []*v2.APIRule
	// Of has the Door of each rule, by the APIRule.
	Of map[types.NamespacedName][]*v1alpha1.Door
	// Taken are the Doors with a path that an older one of the same host has, and which.
	Taken map[types.NamespacedName]string
}

// ExposeDoors returns the rules for all Doors of the cluster, whose requests a Service takes.
func ExposeDoors(all []*v1alpha1.Door, takes Target) DoorRules {
	all = slices.DeleteFunc(slices.Clone(all), func(d *v1alpha1.Door) bool { return d.DeletionTimestamp != nil })
	slices.SortFunc(all, door.ByAge)
	exposed := DoorRules{Of: map[types.NamespacedName][]*v1alpha1.Door{}, Taken: map[types.NamespacedName]string{}}
	rules, paths := map[types.NamespacedName]*v2.APIRule{}, map[types.NamespacedName]map[string]string{}
	for _, each := range all {
		name := DoorRuleOf(each)
		rule := rules[name]
		if rule == nil {
			rule = doorRule(each, takes)
			rules[name], paths[name] = rule, map[string]string{}
			exposed.Rules = append(exposed.Rules, rule)
		}
		if other := firstTaken(paths[name], door.Paths(each)); other != "" {
			exposed.Taken[types.NamespacedName{Namespace: each.Namespace, Name: each.Name}] = other
			continue
		}
		for _, path := range door.Paths(each) {
			paths[name][path] = each.Name
			for _, part := range rulesOfDoor(each, path) {
				rule.Spec.Rules = append(rule.Spec.Rules, part)
				exposed.Of[name] = append(exposed.Of[name], each)
			}
		}
		rule.Generation = generationWith(rule.Generation, each)
	}
	return exposed
}

// DoorRuleOf names the APIRule that stands for a Door.
func DoorRuleOf(d *v1alpha1.Door) types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: doorPrefix + d.Spec.Gateway + "/" + d.Spec.Host}
}

// IsDoorRule reports whether an APIRule of this name stands for Doors.
func IsDoorRule(name string) bool { return strings.HasPrefix(name, doorPrefix) }

func firstTaken(known map[string]string, paths []string) string {
	for _, path := range paths {
		if owner := known[path]; owner != "" {
			return owner
		}
	}
	return ""
}

func doorRule(d *v1alpha1.Door, takes Target) *v2.APIRule {
	name, gateway, timeout := DoorRuleOf(d), d.Spec.Gateway, doorTimeout
	host := v2.Host(d.Spec.Host)
	return &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: d.UID, CreationTimestamp: d.CreationTimestamp},
		Spec: v2.APIRuleSpec{
			Gateway: &gateway, Hosts: []v2.Host{host}, Timeout: &timeout,
			Service: &v2.Service{Name: takes.Service.Name, Namespace: takes.Service.Namespace, Port: takes.Port},
		},
	}
}

// generationWith changes with each Door of a host.
func generationWith(before int64, d *v1alpha1.Door) int64 {
	hash := fnv.New64a()
	_, _ = hash.Write(binary.BigEndian.AppendUint64([]byte(d.UID), uint64(before)))
	_, _ = fmt.Fprint(hash, d.Generation)
	return int64(hash.Sum64() >> 1)
}

// rulesOfDoor let through whom the Door itself judges, and the owners of tokens.
func rulesOfDoor(d *v1alpha1.Door, path string) []v2.Rule {
	open := true
	if strings.HasSuffix(path, "/subscribed") && d.Spec.Application != nil {
		return []v2.Rule{{Path: path, Methods: []v2.Method{"GET"}, NoAuth: &open}}
	}
	if d.Spec.JWT == nil {
		return []v2.Rule{{Path: path, Methods: []v2.Method{"POST", "OPTIONS"}, NoAuth: &open}}
	}
	return []v2.Rule{
		{Path: path, Methods: []v2.Method{"POST"}, JWT: &v2.JWT{
			Authentications: []*v2.JWTAuthentication{{Issuer: d.Spec.JWT.Issuer, JWKSURI: d.Spec.JWT.JWKSURI}},
			Authorizations:  []*v2.JWTAuthorization{{Audiences: d.Spec.JWT.Audiences}},
		}},
		{Path: path, Methods: []v2.Method{"OPTIONS"}, NoAuth: &open},
	}
}
