package activator

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheServiceOfTheGatewaysIsAFlag(t *testing.T) {
	t.Parallel()
	parse := func(text string) (Options, error) {
		var options Options
		flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
		options.BindFlags(flags)
		return options, flags.Parse([]string{"--gateway-service=" + text})
	}
	options, err := parse("rouse-system/rouse-gateway")
	require.NoError(t, err)
	require.Equal(t, types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}, options.GatewayService)
	require.True(t, options.Enabled())

	options, err = parse("")
	require.NoError(t, err)
	require.False(t, options.Enabled())
	for _, text := range []string{"rouse-gateway", "/rouse-gateway", "rouse-system/", "a/b/c"} {
		_, err = parse(text)
		require.ErrorContains(t, err, "is not namespace/name", text)
	}
}
