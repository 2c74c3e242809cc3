package routing

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	allowedSinkHosts = "allowed-sink-hosts"
	wildcard         = "*."
	// leastDomain is how many labels a wildcard needs below it, so that no pattern allows all of a top-level domain.
	leastDomain = 2
)

// Policy is what the operator of the cluster allows. The zero value allows no sinks besides Services of the Subscription's
// own namespace, and all events to everybody.
type Policy struct {
	// AllowedSinkHosts are hosts ("api.example.com"), all below a domain ("*.example.com") and IP addresses.
	AllowedSinkHosts []string
	// Access says who may subscribe to and publish what.
	Access Access
}

// BindFlags adds the flags of the policy, the same in every binary.
func (p *Policy) BindFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&p.AllowedSinkHosts, allowedSinkHosts, p.AllowedSinkHosts,
		"hosts of sinks outside a Subscription's namespace: api.example.com, *.example.com, *.svc.cluster.local or an IP address")
	p.Access.BindFlags(fs)
}

// Validate names every pattern that cannot be meant.
func (p *Policy) Validate() error {
	var errs []error
	for _, pattern := range p.AllowedSinkHosts {
		if problem := patternProblem(pattern); problem != "" {
			errs = append(errs, fmt.Errorf("--%s %q: %s", allowedSinkHosts, pattern, problem))
		}
	}
	return errors.Join(errs...)
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

// Opens reports whether the policy allows anything besides the own namespace.
func (p *Policy) Opens() bool { return len(p.AllowedSinkHosts) > 0 }

// allows reports whether a host, in lower case, is one that the operator named.
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

// isHostName is false for what some resolvers read as an address, such as 127.1 or 0x7f000001.
func isHostName(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return len(validation.IsDNS1123Subdomain(host)) == 0 && last[0] > '9'
}
