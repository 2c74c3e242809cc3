package apirules

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func parse(args ...string) (Options, error) {
	o := Options{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.BindFlags(fs)
	return o, fs.Parse(args)
}

func TestOptionsOfAPIRulesComeFromFlags(t *testing.T) {
	t.Parallel()
	o, err := parse("--apirules", "--gateway-api", "--authorizers=sessions,keys", "--apirules-service=rouse-system/rouse-gateway-http")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"sessions": true, "keys": true}, o.Authorizers)
	require.Equal(t, types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway-http"}, o.Entrance)
	require.ErrorContains(t, o.Validate(), "--apirules: --gateway-service must say where the gateways are")
	o.Gateways = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}
	require.NoError(t, o.Validate())
	o.Entrance = types.NamespacedName{}
	require.ErrorContains(t, o.Validate(), "--gateway-api: --apirules-service must say where HTTPRoutes lead")

	_, err = parse("--apirules-service=rouse-gateway-http")
	require.ErrorContains(t, err, "is not namespace/name")
	o, err = parse()
	require.NoError(t, err)
	require.NoError(t, o.Validate(), "without APIRules nothing is needed")
}
