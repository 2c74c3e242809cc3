package watch

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestSettingsOfAPIRulesComeFromFlags(t *testing.T) {
	t.Parallel()
	settings := APIRuleSettings{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	settings.BindFlags(fs)
	require.NoError(t, fs.Parse([]string{
		"--apirules", "--gateway-api", "--gateway-domain=kyma-system/kyma-gateway=example.com", "--gateway-domain=shop/own=shop.example.com",
	}))
	require.NoError(t, settings.Validate())
	require.Equal(t, APIRuleSettings{Enabled: true, GatewayAPI: true, Domains: map[types.NamespacedName]string{
		{Namespace: "kyma-system", Name: "kyma-gateway"}: "example.com", {Namespace: "shop", Name: "own"}: "shop.example.com",
	}}, settings)
	require.Equal(t, "kyma-system/kyma-gateway=example.com,shop/own=shop.example.com", fs.Lookup("gateway-domain").Value.String())
}

func TestADomainOfAGatewayIsRefused(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		"gateway=example.com":     "is not namespace/name=domain",
		"a/b/c=example.com":       "is not namespace/name=domain",
		"/b=example.com":          "is not namespace/name=domain",
		"a/b":                     "is not namespace/name=domain",
		"a/b=":                    `--gateway-domain a/b: "" is not a domain`,
		"a/b=*.example.com":       `--gateway-domain a/b: "*.example.com" is not a domain`,
		"a/b=Example.com":         `is not a domain`,
		"a/b=localhost":           `is not a domain`,
		"a/b=example.com/path":    `is not a domain`,
		"a/b=example.com=another": `is not a domain`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			settings := APIRuleSettings{}
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			settings.BindFlags(fs)
			err := fs.Parse([]string{"--gateway-domain=" + text})
			if err == nil {
				err = settings.Validate()
			}
			require.ErrorContains(t, err, message)
		})
	}
}
