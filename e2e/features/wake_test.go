//go:build e2e

package features

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

func TestAPushedEventWakesAFunctionThatIsPolledEveryFiveMinutes(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "push.wake.v1", framework.Function{
		Name: "pushed", Max: 1, Source: framework.ReportingHandler(""), // polled fast until it sleeps for the first time
	})
	slow := framework.Function{
		Name: "pushed", Max: 1, Runtime: "nodejs22", Asleep: true, Source: framework.ReportingHandler(""),
		Annotations: map[string]string{"rouse.run/polling-interval": "300", "rouse.run/cooldown-period": "5"},
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, slow.YAML()))
	require.NoError(t, cluster.AwaitPollingInterval(t.Context(), namespace, "pushed", 300))

	published := time.Now()
	keys := publishMany(t, cluster, "push.wake.v1", "push", 1)
	entries, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
	require.NoError(t, err)
	woken := time.UnixMilli(int64(entries[keys[0]].At)).Sub(published)
	t.Logf("first byte %s after publish", woken.Round(time.Millisecond))
	require.Less(t, woken, 20*time.Second, "the push path did not wake the Function") // how soon it does is for the benchmark
}

func TestAThousandEventsAtZeroAreAllDeliveredWithoutFlapping(t *testing.T) {
	const events = 1000
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "burst.load.v1", framework.Function{
		Name: "burst", Max: 3, Source: framework.ReportingHandler("await new Promise(r => setTimeout(r, 100))"),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	record, err := cluster.RecordReplicas(ctx, namespace, "burst")
	require.NoError(t, err)

	keys := publishMany(t, cluster, "burst.load.v1", "burst", events)
	_, err = cluster.AwaitLedger(t.Context(), namespace, keys, 3*time.Minute)
	require.NoError(t, err)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "burst", 0, 3*time.Minute))

	moves := record.Moves()
	t.Logf("replicas: %v", moves)
	highest := int32(0)
	for _, move := range moves {
		highest = max(highest, move.Replicas)
	}
	require.LessOrEqual(t, highest, int32(3))
	require.Greater(t, highest, int32(1), "the backlog did not scale the Function out")
	require.Equal(t, 1, framework.DirectionChanges(moves), "replicas went up and down more than once: %v", moves)
}

func TestAFunctionThatFailsIsTriedAgainUntilItSucceeds(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"throws": `globalThis.n = (globalThis.n ?? 0) + 1; if (globalThis.n < 3) throw new Error('not yet')`,
		// /tmp outlives the container's crash, because a read-only root gives it a volume.
		"crashes": `const fs = require('fs'); if (!fs.existsSync('/tmp/crashed')) { fs.writeFileSync('/tmp/crashed', ''); process.exit(1) }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := connect(t)
			require.NoError(t, cluster.StartLedger(t.Context(), namespace))
			eventType := name + ".first.v1"
			sleeper(t, cluster, namespace, eventType, framework.Function{
				Name: name, Max: 1, ReadOnlyRoot: true, Source: framework.ReportingHandler(body),
			})
			keys := publishMany(t, cluster, eventType, name, 1)
			_, err := cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
			require.NoError(t, err)
		})
	}
}
