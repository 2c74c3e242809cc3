//go:build e2e

package features

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

const held = 8 * time.Second // longer than a Function with fast settings takes to wake or to be polled

func TestFunctionsWakeAndSleepWithoutTheController(t *testing.T) {
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "absent.controller.v1", framework.Function{Name: "alone", Max: 1, Source: framework.ReportingHandler("")})
	require.NoError(t, cluster.Without(t.Context(), framework.System, "rouse-controller", func() error {
		keys := publishMany(t, cluster, "absent.controller.v1", "alone", 3)
		_, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
		return errors.Join(err, cluster.AwaitReplicas(t.Context(), namespace, "alone", 0, asleep))
	}))
}

func TestEventsOfASleepingFunctionWaitWithoutScalerOrKEDA(t *testing.T) {
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "absent.scaling.v1", framework.Function{Name: "waiting", Max: 1, Source: framework.ReportingHandler("")})
	for _, absent := range []struct{ namespace, deployment string }{{framework.System, "rouse-scaler"}, {"keda", "keda-operator"}} {
		ctx, cancel := context.WithCancel(t.Context())
		record, err := cluster.RecordReplicas(ctx, namespace, "waiting")
		require.NoError(t, err)
		var keys []string
		var moves []framework.Move
		require.NoError(t, cluster.Without(t.Context(), absent.namespace, absent.deployment, func() error {
			keys = publishMany(t, cluster, "absent.scaling.v1", absent.deployment, 3)
			time.Sleep(held) // nothing is to happen
			moves = record.Moves()
			return nil
		}))
		cancel()
		require.Len(t, moves, 1, "it was scaled without %s", absent.deployment)
		_, err = cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
		require.NoError(t, err, "its events did not outlast the absence of %s", absent.deployment)
		requireConserved(t, cluster, namespace, "waiting", keys)
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "waiting", 0, 3*time.Minute))
	}
}
