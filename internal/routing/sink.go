package routing

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/internal/flags"
)

// ErrInvalidSink means that a sink is neither the URL of a Service in the
// Subscription's namespace nor one that the policy allows.
var ErrInvalidSink = errors.New("invalid sink")

// SinkError describes an invalid sink. It wraps ErrInvalidSink.
type SinkError struct {
	// Detail is the message for users; they and tools search for its text.
	Detail string
	// OtherNamespace is true when the sink is valid for a Subscription of another namespace.
	OtherNamespace bool
}

func (e *SinkError) Error() string { return ErrInvalidSink.Error() + ": " + e.Detail }

// Unwrap returns ErrInvalidSink.
func (*SinkError) Unwrap() error { return ErrInvalidSink }

const (
	// serviceDomain follows the name and the namespace of a Service.
	serviceDomain = "svc.cluster.local"
	clusterDomain = "cluster.local"
	// serviceLabels is the number of labels in the host of a Service.
	serviceLabels = 5
)

// target is the destination of a sink.
type target struct {
	service  types.NamespacedName // empty if external
	port     int32
	external bool
}

// CheckSink validates the sink of a Subscription of the namespace, and returns a *SinkError.
func CheckSink(sink, namespace string, policy Policy) error {
	_, err := parseSink(sink, namespace, policy)
	return err
}

// parseSink returns the destination of a sink for a Subscription of the namespace.
func parseSink(sink, namespace string, policy Policy) (target, error) {
	parsed, err := parseURL(sink)
	if err != nil {
		return target{}, err
	}
	port, err := sinkPort(parsed)
	if err != nil {
		return target{}, err
	}
	host := parsed.Hostname()
	service, problem := serviceOf(host, namespace)
	switch {
	case problem == nil:
		return target{service: service, port: port}, nil
	case !policy.allows(strings.ToLower(host)):
		return target{}, problem
	case problem.OtherNamespace:
		return target{service: service, port: port}, nil
	case isClusterName(strings.ToLower(host)):
		return target{}, problem // a name in the cluster that is not a Service
	default:
		return target{port: port, external: true}, nil
	}
}

func parseURL(sink string) (*url.URL, error) {
	if sink == "" {
		return nil, &SinkError{Detail: "must not be empty"}
	}
	if !strings.HasPrefix(sink, "http://") && !strings.HasPrefix(sink, "https://") {
		return nil, &SinkError{Detail: "must have URL scheme 'http' or 'https'"}
	}
	parsed, err := url.ParseRequestURI(sink)
	if err != nil {
		return nil, &SinkError{Detail: "must be valid as per RFC 3986"}
	}
	return parsed, nil
}

// serviceOf returns the Service that a host names. It also returns the Service when only its namespace is wrong.
func serviceOf(host, namespace string) (types.NamespacedName, *SinkError) {
	if !strings.HasSuffix(host, "."+serviceDomain) {
		return types.NamespacedName{}, &SinkError{Detail: "must have valid sink URL suffix " + serviceDomain}
	}
	labels := strings.Split(host, ".")
	if len(labels) != serviceLabels {
		return types.NamespacedName{}, &SinkError{Detail: fmt.Sprintf("must have sink URL with %d sub-domains: %s", serviceLabels, host)}
	}
	service := types.NamespacedName{Namespace: labels[1], Name: labels[0]}
	switch {
	case len(validation.IsDNS1123Label(service.Name)) > 0:
		return types.NamespacedName{}, &SinkError{Detail: "must begin with the name of a Service: " + host}
	case service.Namespace != namespace:
		return service, &SinkError{Detail: "must have the same namespace as the subscriber: " + service.Namespace, OtherNamespace: true}
	default:
		return service, nil
	}
}

func isClusterName(host string) bool {
	return host == clusterDomain || strings.HasSuffix(host, "."+clusterDomain)
}

func sinkPort(sink *url.URL) (int32, error) {
	written := sink.Port()
	switch {
	case written == "" && sink.Scheme == "https":
		return 443, nil
	case written == "":
		return 80, nil
	}
	port, err := strconv.ParseUint(written, 10, 16)
	if err != nil || port == 0 {
		return 0, &SinkError{Detail: "must have a port between 1 and 65535"}
	}
	return int32(port), nil
}

// ShownSink returns a sink for logs, metrics and Events: without user, password, query and fragment, which may be
// secrets.
func ShownSink(sink string) string {
	parsed, err := url.Parse(sink)
	if err != nil {
		return "" // the part that does not parse may be the secret
	}
	parsed.User = nil
	parsed.RawQuery, parsed.ForceQuery = "", false
	parsed.Fragment, parsed.RawFragment = "", ""
	return parsed.String()
}

// Endpoint is one address of a sink.
type Endpoint struct {
	// Address is host:port.
	Address string
	// Ready is true while the endpoint passes its readiness probe.
	Ready bool
	// Terminating is true once the endpoint is being shut down.
	Terminating bool
	// Function is true when the Service belongs to a Function, whose endpoints may be dialled before they are Ready.
	Function bool
}

const (
	allowedSinkHosts = "allowed-sink-hosts"
	wildcard         = "*."
	// leastDomain is the minimum number of labels after a wildcard, so that no pattern allows a whole top-level domain.
	leastDomain = 2
)

// Policy holds the operator's access rules. The zero value allows only sinks in the Subscription's own namespace, and
// all events to everyone.
type Policy struct {
	// AllowedSinkHosts are hosts ("api.example.com"), domains with all their subdomains ("*.example.com") and IP
	// addresses.
	AllowedSinkHosts []string
	// Access holds the rules of who may subscribe to and publish which events.
	Access Access
}

// Flags declares the flags of the policy, the same in every binary.
func (p *Policy) Flags(fs *flags.Set) {
	fs.Strings(&p.AllowedSinkHosts, allowedSinkHosts,
		"hosts of sinks outside a Subscription's namespace: api.example.com, *.example.com, *.svc.cluster.local or an IP address")
	for _, pattern := range p.AllowedSinkHosts {
		problem := patternProblem(pattern)
		fs.Require(problem == "", "--%s %q: %s", allowedSinkHosts, pattern, problem)
	}
	fs.Var(&p.Access, "access", `who may subscribe to and publish what, as JSON: {"subscribe":{"rules":[{"namespaces":["a"],"sources":["s"],`+
		`"types":["t.>"]}]},"publish":{"audience":"","rules":[{"serviceAccounts":["a/b"],"sources":["s"],"types":["t.*"]}]}}; `+
		`everybody, where a part is missing`)
}

func patternProblem(pattern string) string {
	if address, err := netip.ParseAddr(pattern); err == nil {
		if NeverSink(address) {
			return "this address is never a sink; remove it"
		}
		return ""
	}
	domain, isWildcard := strings.CutPrefix(pattern, wildcard)
	switch {
	case strings.ContainsAny(pattern, ":/[]"):
		return "write the host alone, without scheme, port, path and brackets"
	case isWildcard && strings.Count(domain, ".")+1 < leastDomain, strings.Trim(pattern, "*.") == "":
		return "name the domain, as in *.example.com"
	case !isHostName(domain):
		return "must be a host in lower-case letters, such as api.example.com, or *. and a domain"
	case neverHost(domain):
		return "this host is never a sink; remove it"
	default:
		return ""
	}
}

// Opens reports whether the policy allows any sinks besides those of the own namespace.
func (p *Policy) Opens() bool { return len(p.AllowedSinkHosts) > 0 }

// allows reports whether the operator has allowed a host, in lower case.
func (p *Policy) allows(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return !NeverSink(address) && p.listsAddress(address)
	}
	if !isHostName(host) || neverHost(host) {
		return false
	}
	for _, pattern := range p.AllowedSinkHosts {
		domain, isWildcard := strings.CutPrefix(pattern, wildcard)
		if host == pattern || isWildcard && strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}

func (p *Policy) listsAddress(address netip.Addr) bool {
	for _, pattern := range p.AllowedSinkHosts {
		if listed, err := netip.ParseAddr(pattern); err == nil && listed.Unmap() == address.Unmap() {
			return true
		}
	}
	return false
}

// isHostName is false for names that some resolvers interpret as an address, such as 127.1 or 0x7f000001.
func isHostName(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return len(validation.IsDNS1123Subdomain(host)) == 0 && last[0] > '9'
}
