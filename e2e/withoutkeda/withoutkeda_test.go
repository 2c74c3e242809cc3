//go:build e2e

package withoutkeda

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	eventType = "without.keda.v1"
	asleep    = 3 * time.Minute // the window of the autoscaler, and the time that gateways are listed
	rounds    = 3
)

func TestWithoutKEDAFunctionsSleepAndWakeByTheirAutoscalers(t *testing.T) {
	cluster, err := framework.Connect()
	require.NoError(t, err)
	withoutKEDA(t, cluster, func() { sleepAndWake(t, cluster) })
}

func sleepAndWake(t *testing.T, cluster *framework.Cluster) {
	t.Helper()
	namespace := cluster.TestNamespace(t, "without")
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper := framework.Function{Name: "sleeper", Runtime: "nodejs22", Max: 3, Asleep: true, Annotations: framework.Fast(), Source: framework.ReportingHandler("")}
	subscription := framework.Subscription{Name: "sleeper", Namespace: namespace, Type: eventType, Sink: "sleeper"}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, sleeper.YAML()+"---\n"+subscription.YAML()))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "sleeper"))
	require.NoError(t, cluster.ApplyWeb(t.Context(), namespace, framework.Web{Name: "web", Answer: "return 'awake'"}))
	caller, err := cluster.StartCaller(t.Context(), namespace)
	require.NoError(t, err)
	said, err := cluster.AwaitMessage(t.Context(), namespace, "sleeper", "Scaling", "True", 2*time.Minute, "HorizontalPodAutoscaler sleeper keeps 0 to 3 replicas by events")
	require.NoError(t, err)
	t.Log(said)

	var woken []time.Duration
	for round := range rounds {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "sleeper", 0, asleep))
		key := fmt.Sprintf("%s-%d", namespace, round)
		began := time.Now()
		require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: key, Type: eventType, Data: map[string]string{"key": key}}))
		entries, err := cluster.AwaitLedger(t.Context(), namespace, []string{key}, time.Minute)
		require.NoError(t, err)
		woken = append(woken, time.UnixMicro(int64(entries[key].At*1000)).Sub(began))
	}

	asked := map[string]int{}
	for name, body := range map[string]string{"sleeper": `{"key": "asked"}`, "web": ""} {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, name, 0, asleep))
		answers, err := caller.Do(t.Context(), framework.Call{URL: "http://" + name + "/", Body: body})
		require.NoError(t, err)
		require.Equal(t, 200, answers[0].Status, answers[0].Text)
		require.Positive(t, answers[0].Waited, "%s slept", name)
		asked[name] = answers[0].MS
	}

	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "sleeper", 0, asleep))
	lost := burst(t, cluster, namespace)
	fmt.Printf("without-keda: woken=%d p50_ms=%d max_ms=%d http_ms=%d workload_http_ms=%d lost=%d\n", len(woken),
		framework.Percentile(woken, 50).Milliseconds(), framework.Percentile(woken, 100).Milliseconds(), asked["sleeper"], asked["web"], lost)
}

// burst publishes a backlog for the sleeping Function, and returns how many events were lost.
func burst(t *testing.T, cluster *framework.Cluster, namespace string) (lost int) {
	t.Helper()
	const events = 300
	record, err := cluster.RecordReplicas(t.Context(), namespace, "sleeper")
	require.NoError(t, err)
	keys := make([]string, events)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-burst-%d", namespace, i)
		require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: keys[i], Type: eventType, Data: map[string]string{"key": keys[i]}}))
	}
	_, err = cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
	require.NoError(t, err)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "sleeper", 0, asleep))
	require.LessOrEqual(t, framework.DirectionChanges(record.Moves()), 1, "%v", record.Moves())
	entries, err := cluster.Ledger(t.Context(), namespace)
	require.NoError(t, err)
	for _, key := range keys {
		if _, ok := entries[key]; !ok {
			lost++
		}
	}
	require.Zero(t, lost)
	return lost
}

// withoutKEDA takes KEDA from the cluster, has the scaler serve its metrics in the place of KEDA's while the function runs, and undoes both.
func withoutKEDA(t *testing.T, cluster *framework.Cluster, run func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // a cluster is never left half changed
	definition := take(ctx, t, cluster, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "scaledobjects.keda.sh")
	// Without the definition the operator cannot go on, with it it ends its ScaledObjects.
	require.NoError(t, cluster.Without(ctx, "keda", "keda-operator", func() error {
		defer putBack(ctx, t, cluster, definition)
		api := take(ctx, t, cluster, "apiregistration.k8s.io/v1", "APIService", "v1beta1.external.metrics.k8s.io")
		defer putBack(ctx, t, cluster, api)
		defer func() { assert.NoError(t, cluster.SetChartValues(ctx, "scaler.externalMetrics.enabled=false")) }()
		require.NoError(t, cluster.SetChartValues(ctx, "scaler.externalMetrics.enabled=true"))
		run()
		return nil
	}))
}

// take deletes an object, and returns what it was.
func take(ctx context.Context, t *testing.T, cluster *framework.Cluster, version, kind, name string) *unstructured.Unstructured {
	t.Helper()
	taken := &unstructured.Unstructured{}
	taken.SetAPIVersion(version)
	taken.SetKind(kind)
	require.NoError(t, cluster.Get(ctx, client.ObjectKey{Name: name}, taken))
	before := taken.DeepCopy()
	require.NoError(t, cluster.Delete(ctx, taken))
	require.NoError(t, framework.Await(ctx, 2*time.Minute, name+" to be gone", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKey{Name: name}, taken)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
	return before
}

// putBack creates an object again.
func putBack(ctx context.Context, t *testing.T, cluster *framework.Cluster, object *unstructured.Unstructured) {
	t.Helper()
	again := object.DeepCopy()
	unstructured.RemoveNestedField(again.Object, "status")
	again.SetResourceVersion("")
	again.SetUID("")
	assert.NoError(t, framework.Await(ctx, 2*time.Minute, object.GetName()+" to be back", func(ctx context.Context) (bool, error) {
		err := cluster.Create(ctx, again.DeepCopy())
		return err == nil || apierrors.IsAlreadyExists(err), client.IgnoreAlreadyExists(err)
	}))
}
