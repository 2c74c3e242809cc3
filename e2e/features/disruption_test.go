//go:build e2e

package features

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

func TestNothingIsLostWhenABridgeAndTheScalersAreKilledInABurst(t *testing.T) {
	const events = 600
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "killed.burst.v1", framework.Function{
		Name: "killed", Max: 3, Source: framework.ReportingHandler("await new Promise(r => setTimeout(r, 50))"),
	})

	first := publishMany(t, cluster, "killed.burst.v1", "before", events/2)
	_, err := cluster.AwaitLedger(t.Context(), namespace, first[:20], time.Minute)
	require.NoError(t, err, "the burst did not start")
	bridges, err := cluster.PodsOf(t.Context(), "eventbridge")
	require.NoError(t, err)
	require.NoError(t, cluster.KillPod(t.Context(), &bridges[0]))
	scalers, err := cluster.PodsOf(t.Context(), "scaler")
	require.NoError(t, err)
	for i := range scalers {
		require.NoError(t, cluster.KillPod(t.Context(), &scalers[i]))
	}
	second := publishMany(t, cluster, "killed.burst.v1", "after", events/2)

	all := slices.Concat(first, second)
	_, err = cluster.AwaitLedger(t.Context(), namespace, all, 4*time.Minute)
	require.NoError(t, err)
	requireConserved(t, cluster, namespace, "killed", all)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "killed", 0, 3*time.Minute))
}

func TestNATSMayRestartWhileFunctionsSleepAndWhileTheyWork(t *testing.T) {
	const events = 300
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "outage.sleeping.v1", framework.Function{Name: "sleeping", Max: 1, Source: framework.ReportingHandler("")})
	sleeper(t, cluster, namespace, "outage.working.v1", framework.Function{
		Name: "working", Max: 3, Source: framework.ReportingHandler("await new Promise(r => setTimeout(r, 500))"),
	})
	working := publishMany(t, cluster, "outage.working.v1", "working", events)
	_, err := cluster.AwaitLedger(t.Context(), namespace, working[:20], time.Minute)
	require.NoError(t, err, "the work did not start")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	record, err := cluster.RecordReplicas(ctx, namespace, "working")
	require.NoError(t, err)
	before, err := cluster.Ledger(t.Context(), namespace)
	require.NoError(t, err)
	servers, err := cluster.PodsOf(t.Context(), "nats")
	require.NoError(t, err)
	for i := range servers {
		require.NoError(t, cluster.KillPod(t.Context(), &servers[i]))
	}
	restarted := time.Now()
	sleeping := publishMany(t, cluster, "outage.sleeping.v1", "sleeping", 1)

	entries, err := cluster.AwaitLedger(t.Context(), namespace, slices.Concat(working, sleeping), 4*time.Minute)
	require.NoError(t, err)
	requireConserved(t, cluster, namespace, "working", working)
	requireConserved(t, cluster, namespace, "sleeping", sleeping)
	require.Less(t, len(before), events, "all work was done before NATS restarted: the feature shows nothing")
	lastWork := lastEntry(entries, working)
	for _, move := range record.Moves() {
		require.False(t, move.Replicas == 0 && move.At.After(restarted) && move.At.Before(lastWork),
			"replicas fell to 0 at %s, before the last event at %s: a false zero", move.At, lastWork)
	}
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "working", 0, 3*time.Minute))
}

func TestPublishersAreRefusedAtOnceWhileNATSIsDown(t *testing.T) {
	cluster, _ := connect(t)
	require.NoError(t, cluster.CrashNATS(t.Context()))
	event := framework.Event{ID: "refused", Type: "outage.refused.v1", Data: map[string]string{}}
	require.NoError(t, framework.Await(t.Context(), time.Minute, "publishers to be refused", func(ctx context.Context) (bool, error) {
		started := time.Now()
		status, _, err := cluster.TryPublish(ctx, event)
		refused := status == http.StatusBadGateway || status == http.StatusServiceUnavailable
		return refused && time.Since(started) < 4*time.Second, err // until the bridge knows that NATS is down, publishers wait
	}))
	require.NoError(t, cluster.Publish(t.Context(), event), "publishing did not recover by itself")
}

func lastEntry(entries map[string]framework.Entry, keys []string) time.Time {
	last := 0.0
	for _, key := range keys {
		last = max(last, entries[key].At)
	}
	return time.UnixMilli(int64(last))
}

// requireConserved checks published = acked + dead-lettered + pending once the backlog is settled, and says how many
// deliveries were repeated.
func requireConserved(t *testing.T, cluster *framework.Cluster, namespace, subscription string, keys []string) {
	t.Helper()
	var balance framework.Balance
	require.NoError(t, framework.Await(t.Context(), 90*time.Second, "the backlog to be settled", func(ctx context.Context) (bool, error) {
		var err error
		balance, err = cluster.Balance(ctx, namespace, subscription)
		return balance.Pending == 0, err
	}))
	entries, err := cluster.Ledger(t.Context(), namespace)
	require.NoError(t, err)
	acked, duplicates := 0, 0
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			acked++
			duplicates += entry.Count - 1
		}
	}
	lost := len(keys) - acked - int(balance.DeadLetters) - int(balance.Pending)
	t.Logf("published=%d acked=%d deadlettered=%d pending=%d lost=%d duplicates=%d",
		len(keys), acked, balance.DeadLetters, balance.Pending, lost, duplicates)
	require.Zero(t, balance.DeadLetters, "a restart of ours is no reason to dead-letter an event")
	require.Zero(t, lost)
}
