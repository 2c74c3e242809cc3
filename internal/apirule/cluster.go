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
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/activation"
)

// Cluster holds the objects of the cluster that Validate needs for one APIRule.
type Cluster struct {
	// Gateway is the gateway that spec.gateway names, nil when it does not exist.
	Gateway *Gateway
	// HostOwner is the kind of the object that already owns the APIRule's host, such as APIRule. It is empty when the
	// host is free.
	HostOwner string
	// Services are the existing Services that the rules name.
	Services map[types.NamespacedName]Service
	// Authorizers are the names that extAuth may use.
	Authorizers []string
}

// Gateway holds the properties of a gateway that determine the domain of short hosts.
type Gateway struct {
	// Hosts are the hosts of its listeners. A listener for every host has an empty one.
	Hosts []string
}

// Service holds the properties that determine whether a Service can be exposed.
type Service struct {
	// Selects is true if the Service has a selector. The author of a Service without one chooses its endpoints freely.
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

// IsHost reports whether host is valid in an APIRule: a single label, a fully qualified domain name, or a wildcard
// before one.
func IsHost(host v2.Host) bool { return isShort(host) || isFull(host) }

// domain returns the domain that all hosts of the gateway share.
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

// FullHost returns the host name of requests for a host of an APIRule: a short host gets the domain of the gateway. It
// returns false when the gateway has no domain or the host is not valid.
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

// Target is the Service and port to which a rule sends requests.
type Target struct {
	Service types.NamespacedName
	Port    int32
}

// TargetOf returns the target of a rule of an APIRule. It returns false when neither the rule nor the spec names a
// Service.
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
	// Gateway is the gateway that spec.gateway names.
	Gateway types.NamespacedName
	// Host is the host name of requests, possibly with a wildcard. It is empty if Problems prevent the APIRule from
	// being served.
	Host string
	// AsksCertificates is true for a host at which clients may present certificates.
	AsksCertificates bool `json:",omitempty"` // releases before have none, and fingerprints have to agree
	// CORS is nil without a policy.
	CORS *v2.CORSPolicy
	// Rules are in the order of the spec.
	Rules []Rule
	// Problems are all problems, including those of individual rules.
	Problems Problems
}

// Rule is one rule of an Exposure.
type Rule struct {
	// Spec is the rule as written by the user.
	Spec *v2.Rule
	// Backend is the destination of the rule's requests. A closed rule has no backend, and responds with 503.
	Backend Backend
	Closed  bool
	// Timeout bounds the time to a response, including the wait for a pod.
	Timeout time.Duration
}

// Backend is a port of a Service.
type Backend struct {
	Service types.NamespacedName
	Port    int32
	// Address is the cluster IP, which distinguishes a recreated Service from its predecessor. Requests are sent to
	// pods.
	Address string
	// Wakes is true if requests wake what serves the Service: the Function of its name, or the workload that it names.
	Wakes bool `json:"Function"` // the name of the release before, with which fingerprints have to agree
	// Door is the Door to which requests go, namespace/name; empty for any other backend.
	Door string `json:",omitempty"`
}

// Fingerprint is equal for Exposures that are served in the same way.
func (e *Exposure) Fingerprint() (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode APIRule %s: %w", e.APIRule, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// AnnotationFrom is set on a Service by its owner: the other namespaces whose APIRules may expose it, separated by
// commas, or * for all. APIRules of its own namespace always may.
const AnnotationFrom = "rouse.run/apirules-from"

// Objects are the cluster's objects that determine the Exposures of APIRules, besides the APIRules themselves.
type Objects struct {
	// Gateways are the gateways that spec.gateway may name.
	Gateways map[types.NamespacedName]Gateway
	Services map[types.NamespacedName]ServiceInfo
	// Authorizers are the names that extAuth may use.
	Authorizers []string
	// Doors are those behind the rules of APIRules that stand for Doors, in their order, and DoorService is what takes their
	// requests.
	Doors       map[types.NamespacedName][]*v1alpha1.Door
	DoorService Target
}

// ServiceInfo holds the properties of a Service that matter to APIRules.
type ServiceInfo struct {
	// Selects is true if the Service has a selector. The author of a Service without one chooses its endpoints freely.
	Selects bool
	// Wakes is true if the Service belongs to the Function of the same name, or names a workload that HTTP wakes.
	Wakes bool
	// Address is its cluster IP, empty without one.
	Address string
	Ports   []int32
	// From lists the other namespaces whose APIRules may expose it.
	From []string
	// Target is the Service to which an alias leads; without a name the Service is no alias.
	Target types.NamespacedName
}

// SetAlias makes a Service an alias of another one: requests go to the pods of that, whatever slices and selector the alias has. The
// alias itself says which namespaces may expose it.
func (o *Objects) SetAlias(alias, target types.NamespacedName) {
	service, exists := o.Services[alias]
	leads, leadsSomewhere := o.Services[target]
	if !exists || !leadsSomewhere {
		return
	}
	leads.Target, leads.From = target, service.From
	o.Services[alias] = leads
}

// ServiceInfoOf returns the properties of a Service that determine whether and how it is exposed.
func ServiceInfoOf(service *corev1.Service) ServiceInfo {
	s := ServiceInfo{
		Selects: len(service.Spec.Selector) > 0 && service.Spec.Type != corev1.ServiceTypeExternalName,
		Wakes:   activation.WakesWorkload(service) || activation.FunctionOf(service) == service.Name,
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

// allows reports whether APIRules of another namespace may expose the Service.
func (s *ServiceInfo) allows(namespace string) bool {
	return slices.Contains(s.From, namespace) || slices.Contains(s.From, "*")
}
