package routing

import (
	"net/netip"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/flags"
)

func TestPolicyRejectsMeaninglessPatterns(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ pattern, want string }{
		"a host":                    {"api.example.com", ""},
		"all below a domain":        {"*.example.com", ""},
		"all Services":              {"*.svc.cluster.local", ""},
		"an address":                {"10.1.2.3", ""},
		"an address of version 6":   {"2001:db8::1", ""},
		"everything":                {"*", "name the domain, as in *.example.com"},
		"nothing":                   {"", "name the domain, as in *.example.com"},
		"a top-level domain":        {"*.com", "name the domain, as in *.example.com"},
		"a wildcard inside":         {"api.*.com", "must be a host in lower-case letters, such as api.example.com, or *. and a domain"},
		"large letters":             {"API.example.com", "must be a host in lower-case letters, such as api.example.com, or *. and a domain"},
		"an address in other words": {"127.1", "must be a host in lower-case letters, such as api.example.com, or *. and a domain"},
		"a URL":                     {"https://api.example.com", "write the host alone, without scheme, port, path and brackets"},
		"a port":                    {"api.example.com:443", "write the host alone, without scheme, port, path and brackets"},
		"a network":                 {"10.0.0.0/8", "write the host alone, without scheme, port, path and brackets"},
		"a metadata address":        {"169.254.169.254", "this address is never a sink; remove it"},
		"a loopback address":        {"::1", "this address is never a sink; remove it"},
		"a metadata host":           {"metadata.google.internal", "this host is never a sink; remove it"},
		"the machine itself":        {"localhost", "this host is never a sink; remove it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := Policy{AllowedSinkHosts: []string{tc.pattern}}
			if tc.want == "" {
				require.NoError(t, flags.Validate(&policy))
				return
			}
			require.EqualError(t, flags.Validate(&policy), `--allowed-sink-hosts "`+tc.pattern+`": `+tc.want)
		})
	}
}

func TestPolicyIsAListOfHosts(t *testing.T) {
	t.Parallel()
	var policy Policy
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Bind(fs, &policy)
	require.NoError(t, fs.Parse([]string{"--allowed-sink-hosts=api.example.com,*.example.org"}))
	require.Equal(t, Policy{AllowedSinkHosts: []string{"api.example.com", "*.example.org"}}, policy)
}

func TestPolicyOpensSinks(t *testing.T) {
	t.Parallel()
	policy := Policy{AllowedSinkHosts: []string{"api.example.com", "*.example.org", "*.bank.svc.cluster.local", "10.1.2.3", "2001:db8::1"}}
	tests := map[string]struct {
		sink         string
		wantService  types.NamespacedName
		wantPort     int32
		wantExternal bool
	}{
		"the own namespace":           {"http://price.shop.svc.cluster.local", types.NamespacedName{Namespace: "shop", Name: "price"}, 80, false},
		"another namespace":           {"http://price.bank.svc.cluster.local:8080", types.NamespacedName{Namespace: "bank", Name: "price"}, 8080, false},
		"a foreign host":              {"https://api.example.com/in", types.NamespacedName{}, 443, true},
		"a foreign host in capitals":  {"http://API.example.com", types.NamespacedName{}, 80, true},
		"a host below a domain":       {"http://a.b.example.org:81", types.NamespacedName{}, 81, true},
		"an address":                  {"http://10.1.2.3", types.NamespacedName{}, 80, true},
		"another form of the address": {"http://[::ffff:10.1.2.3]", types.NamespacedName{}, 80, true},
		"an address of version 6":     {"http://[2001:db8::1]:8080", types.NamespacedName{}, 8080, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Sink = tc.sink }), policy)
			require.NoError(t, err)
			require.Equal(t, tc.wantService, route.Service)
			require.Equal(t, tc.wantPort, route.Port)
			require.Equal(t, tc.wantExternal, route.External)
		})
	}
}

func TestPolicyOpensNothingElse(t *testing.T) {
	t.Parallel()
	// Patterns that Validate would reject, to test the second line of defence.
	policy := Policy{AllowedSinkHosts: []string{
		"api.example.com", "*.example.org", "*.svc.cluster.local", "*.cluster.local", "127.0.0.1", "169.254.169.254", "::1", "localhost",
		"*.google.internal", "*.1", "0.0.0.0",
	}}
	tests := map[string]string{
		"a host below one that is listed":    "http://a.api.example.com",
		"a host that only ends like it":      "http://evil-api.example.com",
		"the domain of a wildcard":           "http://example.org",
		"a domain that only ends like it":    "http://evilexample.org",
		"a trailing dot":                     "http://api.example.com.",
		"credentials that look like a host":  "http://api.example.com@example.net",
		"a pod":                              "http://10-0-0-1.shop.pod.cluster.local",
		"a name below a Service":             "http://pod.price.bank.svc.cluster.local",
		"an empty namespace":                 "http://price..svc.cluster.local",
		"an address that is not listed":      "http://10.1.2.3",
		"loopback":                           "http://127.0.0.1",
		"loopback of version 6":              "http://[::1]",
		"loopback as version 6":              "http://[::ffff:127.0.0.1]",
		"loopback in short":                  "http://127.1",
		"loopback as a number":               "http://2130706433",
		"no address":                         "http://0.0.0.0",
		"metadata":                           "http://169.254.169.254/latest",
		"metadata by name":                   "http://metadata.google.internal",
		"the machine itself":                 "http://localhost:8080",
		"another scheme":                     "ftp://api.example.com",
		"port zero":                          "http://api.example.com:0",
		"link-local with the zone of a link": "http://[fe80::1%25eth0]",
	}
	for name, sink := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Sink = sink }), policy)
			require.ErrorIs(t, err, ErrInvalidSink)
		})
	}
}

func TestNeverSink(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"169.254.169.254": true, "169.254.1.1": true, "::ffff:169.254.169.254": true, "fe80::1": true, "fe80::1%eth0": true,
		"224.0.0.1": true, "ff02::1": true, "255.255.255.255": true, "100.100.100.200": true, "168.63.129.16": true, "fd00:ec2::254": true,
		"10.1.2.3": false, "192.168.1.1": false, "8.8.8.8": false, "2001:db8::1": false, "fd12::1": false,
	}
	for address, want := range tests {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, NeverSink(netip.MustParseAddr(address)))
		})
	}
	require.True(t, NeverSink(netip.Addr{}))
}

func TestASinkIsShownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ sink, want string }{
		"nothing to hide":       {"http://price.shop.svc.cluster.local:8080/in", "http://price.shop.svc.cluster.local:8080/in"},
		"a user and a password": {"https://me:secret@api.example.com/in", "https://api.example.com/in"},
		"a token in the query":  {"https://api.example.com/in?token=secret#secret", "https://api.example.com/in"},
		"a malformed URL":       {"https://me:sec%ret@api.example.com", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, ShownSink(tc.sink))
		})
	}
}
