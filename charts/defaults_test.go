package charts

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/rouse-run/rouse/eventbridge/replica"
	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/scaler"
)

// Local mode and the benchmarks run the components without the chart.
func TestTheChartsValuesAreTheDefaultsOfTheFlags(t *testing.T) {
	t.Parallel()
	// Values that only exist in a cluster, or that each installation sets.
	own := map[string]bool{
		"service": true, "admin-address": true, "nats-url": true, "namespace": true,
		"gateway-service": true, "chain-key-file": true,
	}
	bridge, door, asker := replica.DefaultOptions(), gateway.DefaultOptions(), scaler.DefaultOptions()
	for name, options := range map[string]flags.Options{"rouse-eventbridge": &bridge, "rouse-gateway": &door, "rouse-scaler": &asker} {
		fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
		log := daemon.DefaultLogOptions()
		flags.Bind(fs, options, &log)
		compared := 0
		for _, arg := range named[*appsv1.Deployment](t, render(t, nil), name).Spec.Template.Spec.Containers[0].Args {
			key, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			flag := fs.Lookup(key)
			if flag == nil || own[key] {
				continue // of the broker or of the daemon
			}
			require.NoError(t, fs.Set(key, value), arg)
			require.Equal(t, flag.DefValue, flag.Value.String(), "%s: %s", name, arg)
			compared++
		}
		require.NotZero(t, compared, name)
	}
}
