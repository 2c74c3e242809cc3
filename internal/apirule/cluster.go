package apirule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Cluster holds what Validate needs of the cluster that an APIRule is in.
type Cluster struct {
	// Gateway is the one that spec.gateway names, nil when it does not exist.
	Gateway *Gateway
	// HostOwner is the kind of what else has the APIRule's host, such as APIRule. Empty: the host is free.
	HostOwner string
	// Services are those that exist of the ones that the rules name.
	Services map[types.NamespacedName]Service
	// Authorizers are the names that extAuth may use.
	Authorizers []string
}

// Gateway is what decides on the domain of short hosts.
type Gateway struct {
	// Hosts are the hosts of its listeners. One that takes every host has an empty one.
	Hosts []string
}

// Service is what decides whether a Service can be exposed.
type Service struct {
	// Selects is true if the Service has a selector. One without leads wherever its author wants.
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

// Target is the Service that a rule sends requests to.
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

// Exposure is the effect of an APIRule: its host and its routes.
type Exposure struct {
	APIRule    types.NamespacedName
	UID        types.UID
	Generation int64
	// Gateway is the one that spec.gateway names.
	Gateway types.NamespacedName
	// Host of requests, perhaps with a wildcard. Empty if nothing is served because of Problems.
	Host string
	// CORS is nil without a policy.
	CORS *v2.CORSPolicy
	// Rules are in the order of the spec.
	Rules []Rule
	// Problems are all problems, including those of single rules.
	Problems Problems
}

// Rule is one of an Exposure.
type Rule struct {
	// Spec is the rule as it was written.
	Spec *v2.Rule
	// Backend is where its requests go. A closed rule has none, and answers with 503.
	Backend Backend
	Closed  bool
	// Timeout bounds how long an answer may take, waiting for a pod included.
	Timeout time.Duration
}

// Backend is a port of a Service.
type Backend struct {
	Service types.NamespacedName
	Port    int32
	// Address is the cluster IP, which distinguishes a recreated Service from the one before. Requests go to pods.
	Address string
	// Function is true if Service is the name of a Function, which may sleep.
	Function bool
}

// Fingerprint is the same for Exposures that are served alike.
func (e *Exposure) Fingerprint() (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode APIRule %s: %w", e.APIRule, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// AnnotationFrom is set on a Service by those to whom it belongs: the namespaces whose APIRules may lead to it, separated by
// commas, or * for all. Those of its own namespace always may.
const AnnotationFrom = "rouse.run/apirules-from"

// Objects are the cluster's objects that decide on APIRules, besides the APIRules themselves.
type Objects struct {
	// Gateways are those that spec.gateway may name.
	Gateways map[types.NamespacedName]Gateway
	Services map[types.NamespacedName]ServiceInfo
	// Authorizers are the names that extAuth may use.
	Authorizers []string
}

// ServiceInfo holds the properties of a Service that decide on an APIRule.
type ServiceInfo struct {
	// Selects is true if the Service has a selector. One without leads wherever its author wants.
	Selects bool
	// Function is true if it is the Service of the Function of its name.
	Function bool
	// Address is its cluster IP, empty without one.
	Address string
	Ports   []int32
	// From lists the other namespaces with APIRules that may lead to it.
	From []string
}

// ServiceInfoOf takes from a Service what decides whether and how it is exposed.
func ServiceInfoOf(service *corev1.Service) ServiceInfo {
	s := ServiceInfo{Selects: len(service.Spec.Selector) > 0 && service.Spec.Type != corev1.ServiceTypeExternalName}
	if owner := metav1.GetControllerOf(service); owner != nil {
		s.Function = owner.Kind == "Function" && owner.Name == service.Name &&
			strings.HasPrefix(owner.APIVersion, v1alpha2.GroupVersion.Group+"/")
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone {
		s.Address = service.Spec.ClusterIP
	}
	for i := range service.Spec.Ports {
		if port := service.Spec.Ports[i]; port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
			s.Ports = append(s.Ports, port.Port)
		}
	}
	for each := range strings.SplitSeq(service.Annotations[AnnotationFrom], ",") {
		if each = strings.TrimSpace(each); each != "" {
			s.From = append(s.From, each)
		}
	}
	return s
}

// allows reports whether APIRules of a namespace may lead to a Service of another.
func (s *ServiceInfo) allows(namespace string) bool {
	return slices.Contains(s.From, namespace) || slices.Contains(s.From, "*")
}
