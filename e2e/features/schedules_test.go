//go:build e2e

package features

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/e2e/framework"
)

var scheduleKind = schema.GroupVersionKind{Group: "rouse.run", Version: "v1alpha1", Kind: "Schedule"}

// schedule is a Schedule whose events the ledger knows by their due times.
func schedule(name, when, more, eventType string) string {
	return fmt.Sprintf(`
apiVersion: rouse.run/v1alpha1
kind: Schedule
metadata: {name: %s}
spec:
  %s
%s
  event: {type: %s, source: %s, data: {key: "{{due}}"}}
`, name, when, more, eventType, framework.Source)
}

// awaitSchedule waits until Ready of a Schedule has a reason. The status is written once a minute while only times change.
func awaitSchedule(t *testing.T, cluster *framework.Cluster, namespace, name, reason string) {
	t.Helper()
	err := framework.Await(t.Context(), 3*time.Minute, "Schedule "+name+" to be "+reason, func(ctx context.Context) (bool, error) {
		conditions, err := cluster.Conditions(ctx, namespace, scheduleKind, name)
		if got := conditions["Ready"]; err == nil && got.Reason != reason {
			err = fmt.Errorf("is %s (%s): %s", got.Status, got.Reason, got.Message)
		}
		return err == nil, err
	})
	require.NoError(t, err)
}

func TestAScheduleWakesASleepingFunctionAheadOfItsEvent(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "ahead.due.v1", framework.Function{Name: "ahead", Max: 1, Source: framework.ReportingHandler("")})
	record, err := cluster.RecordReplicas(t.Context(), namespace, "ahead")
	require.NoError(t, err)
	due := time.Now().Add(40 * time.Second).UTC().Truncate(time.Second)
	key := due.Format(time.RFC3339)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, schedule("ahead", `at: "`+key+`"`, "  wakeAhead: 20s", "ahead.due.v1")))
	entries, err := cluster.AwaitLedger(t.Context(), namespace, []string{key}, 3*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, entries[key].Count)
	require.False(t, time.UnixMilli(int64(entries[key].At)).Before(due), "never early")
	woken := slices.IndexFunc(record.Moves(), func(move framework.Move) bool { return move.Replicas > 0 })
	require.True(t, record.Moves()[woken].At.Before(due), "the Function was not woken ahead: %v", record.Moves())
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "ahead", 0, asleep))
	awaitSchedule(t, cluster, namespace, "ahead", "Finished")
}

func TestAScheduleGoesOnWhileBridgesAreKilledAndIsTold(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	fast := framework.Function{Name: "pulse", Max: 1, Source: framework.ReportingHandler("")}
	sleeper(t, cluster, namespace, "pulse.due.v1", fast)
	start := time.Now().Add(5 * time.Second).UTC().Truncate(time.Second)
	more := "  startAt: \"" + start.Format(time.RFC3339) + "\"\n  missed: {policy: All}"
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, schedule("pulse", "every: 2s", more, "pulse.due.v1")))
	var keys []string
	for i := range 15 {
		keys = append(keys, start.Add(time.Duration(i+1)*2*time.Second).Format(time.RFC3339))
	}
	_, err := cluster.AwaitLedger(t.Context(), namespace, keys[:3], 2*time.Minute)
	require.NoError(t, err)
	bridges, err := cluster.PodsOf(t.Context(), "eventbridge")
	require.NoError(t, err)
	require.NoError(t, cluster.KillPod(t.Context(), &bridges[0]))
	entries, err := cluster.AwaitLedger(t.Context(), namespace, keys, 3*time.Minute)
	require.NoError(t, err)
	for _, key := range keys {
		require.Equal(t, 1, entries[key].Count, key)
	}
	awaitSchedule(t, cluster, namespace, "pulse", "Scheduled")

	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, schedule("pulse", `cron: "0 0 30 2 *"`, "", "pulse.due.v1")))
	awaitSchedule(t, cluster, namespace, "pulse", "Invalid")
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "pulse", 0, asleep), "nothing is due any more")
}

func TestADelayedEventWakesAFunctionWhenItIsDue(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "later.due.v1", framework.Function{Name: "later", Max: 1, Source: framework.ReportingHandler("")})
	due := time.Now().Add(15 * time.Second)
	header := http.Header{
		"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Source": {framework.Source}, "Ce-Id": {namespace + "-1"},
		"Ce-Type": {"later.due.v1"}, "Rouse-Deliver-At": {due.UTC().Format(time.RFC3339Nano)},
	}
	publish := func() (int, string) {
		status, answer, err := cluster.Request(t.Context(), http.MethodPost, framework.System, "rouse-eventbridge", "publish", header, []byte(`{"key":"late"}`))
		require.NoError(t, err)
		return status, answer
	}
	for range 2 { // a repeat is one
		status, answer := publish()
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	header.Set("Rouse-Deliver-At", due.Add(time.Hour).UTC().Format(time.RFC3339Nano))
	status, _ := publish()
	require.Equal(t, http.StatusConflict, status)
	entries, err := cluster.AwaitLedger(t.Context(), namespace, []string{"late"}, 2*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, entries["late"].Count)
	require.False(t, time.UnixMilli(int64(entries["late"].At)).Before(due.Truncate(time.Millisecond)), "never early")
}

func TestAScheduleThatCannotBeIsRefusedWithItsField(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	err := cluster.ApplyYAML(t.Context(), namespace, schedule("both", "cron: \"@daily\"\n  every: 1h", "", "x.v1"))
	require.ErrorContains(t, err, "set exactly one of cron, every and at")
}
