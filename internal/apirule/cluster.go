package apirule

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// Cluster is what Validate has to know of the cluster that an APIRule is in.
type Cluster struct {
	// Gateway is the one that spec.gateway names, nil when it does not exist.
	Gateway *Gateway
	// HostOwner is the kind of what else has the APIRule's host, such as APIRule. Empty: the host is free.
	HostOwner string
	// Services are those that exist of the ones that the rules name.
	Services map[types.NamespacedName]Service
	// Authorizers are the names that extAuth may use.
	Authorizers map[string]bool
}

// Gateway is what decides on the domain of short hosts.
type Gateway struct {
	// Hosts are those of its listeners. One that takes every host has an empty one.
	Hosts []string
}

// Service is what decides whether a Service can be exposed.
type Service struct {
	// Selects says that the Service has a selector. One without leads wherever its author wants.
	Selects bool
}

const (
	wildcard      = "*."
	maxHostLength = 255
)

var (
	shortHost = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	fullHost  = regexp.MustCompile(`^([*]\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]{2,63}$`)
)

func isShort(host v2.Host) bool { return shortHost.MatchString(string(host)) }

func isFull(host v2.Host) bool {
	return len(host) <= maxHostLength && fullHost.MatchString(string(host))
}

// IsHost reports whether a host is one of an APIRule: a single label, a fully qualified domain name, or a wildcard before one.
func IsHost(host v2.Host) bool { return isShort(host) || isFull(host) }

// domain is the one of all hosts of the gateway.
func (g *Gateway) domain() (string, bool) {
	if g == nil || len(g.Hosts) == 0 {
		return "", false
	}
	for _, host := range g.Hosts {
		if host != g.Hosts[0] {
			return "", false
		}
	}
	return strings.CutPrefix(g.Hosts[0], wildcard)
}

// FullHost is the host of requests that a host of an APIRule stands for: a short one gets the domain of the gateway. It is none
// when the gateway has no domain or the host is not valid.
func FullHost(host v2.Host, gateway *Gateway) (string, bool) {
	if !isShort(host) {
		return string(host), isFull(host)
	}
	domain, ok := gateway.domain()
	if !ok {
		return "", false
	}
	full := v2.Host(string(host) + "." + domain)
	return string(full), isFull(full)
}

// Target is where a rule sends requests.
type Target struct {
	Service types.NamespacedName
	Port    int32
}

// TargetOf is the target of a rule of an APIRule. It has none when neither the rule nor the spec names a Service.
func TargetOf(apiRule *v2.APIRule, rule *v2.Rule) (Target, bool) {
	service := rule.Service
	if service == nil {
		service = apiRule.Spec.Service
	}
	if service == nil {
		return Target{}, false
	}
	namespace := service.Namespace
	if namespace == "" && apiRule.Spec.Service != nil {
		namespace = apiRule.Spec.Service.Namespace
	}
	if namespace == "" {
		namespace = apiRule.Namespace
	}
	return Target{Service: types.NamespacedName{Namespace: namespace, Name: service.Name}, Port: service.Port}, true
}
