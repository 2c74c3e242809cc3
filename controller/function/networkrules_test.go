package function

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const (
	somePods  = `[{"namespaceSelector":{"matchLabels":{"a":"b"}},"podSelector":{"matchLabels":{"c":"d"}}}]`
	someRules = `{"callers":` + somePods + `,"publisher":{"address":"http://bridge.rouse-system/publish","to":` + somePods +
		`,"ports":[8080]},"dnsPorts":[53]}`
)

func TestRulesOfNetworkPoliciesAreAFlag(t *testing.T) {
	t.Parallel()
	flags := func() (*Options, *pflag.FlagSet) {
		options, set := testOptions(), pflag.NewFlagSet("controller", pflag.ContinueOnError)
		options.BindFlags(set)
		return &options, set
	}
	options, set := flags()
	require.Nil(t, options.settings().Network, "they are off")
	require.NoError(t, set.Set("function-network-policy", someRules))
	require.Equal(t, []int32{53}, options.settings().Network.DNSPorts)
	again, set := flags()
	require.NoError(t, set.Set("function-network-policy", (&networkRules{&options.Network}).String()))
	require.Equal(t, options.Network, again.Network)
	require.NoError(t, set.Set("function-network-policy", ""))
	require.Nil(t, again.Network)

	for name, tc := range map[string]struct{ text, want string }{
		"no JSON":                            {`from everyone`, "invalid character"},
		"a misspelt member":                  {`{"form":[]}`, `unknown field "form"`},
		"a misspelt peer, which is everyone": {`{"from":[{"podselctor":{}}]}`, `unknown field "podselctor"`},
		"no callers":                         {`{}`, "callers: name the installation's pods"},
		"no port of DNS":                     {`{}`, "dnsPorts: name one"},
		"callers by their pods' labels":      {`{"callers":[{"podSelector":{"matchLabels":{"c":"d"}}}]}`, "callers[0]: needs a namespaceSelector and a podSelector"},
		"all pods of a namespace":            {`{"callers":[{"namespaceSelector":{"matchLabels":{"a":"b"}},"podSelector":{}}]}`, "callers[0]: needs"},
		"a port that there is not":           {`{"dnsPorts":[65536]}`, "dnsPorts: 65536 is no port"},
		"a peer of nobody":                   {`{"from":[{}]}`, "from[0]: needs either an ipBlock or selectors"},
		"a network that is none":             {`{"dnsTo":[{"ipBlock":{"cidr":"10.0.0.1"}}]}`, `dnsTo[0]: ipBlock.cidr "10.0.0.1" is no network`},
		"a selector that is none":            {`{"egress":[{"to":[{"podSelector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}]}]}`, "egress[0].to[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, set := flags()
			require.ErrorContains(t, set.Set("function-network-policy", tc.text), tc.want)
		})
	}
}
