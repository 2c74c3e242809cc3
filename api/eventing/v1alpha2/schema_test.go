package v1alpha2_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

// The schema requires three fields and does not restrict their values: the controller validates them, and reports in
// the status.
func TestSubscriptionIsAccepted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]string{
		"a plain Subscription":      `{sink: http://a.b.svc.cluster.local, source: shop, types: [order.v1]}`,
		"empty values":              `{sink: "", source: "", types: []}`,
		"an unknown type matching":  `{sink: s, source: s, types: [t], typeMatching: fuzzy}`,
		"an empty type matching":    `{sink: s, source: s, types: [t], typeMatching: ""}`,
		"a sink that is not a URL":  `{sink: "%zz", source: s, types: [t]}`,
		"empty and duplicate types": `{sink: s, source: s, types: ["", t, t]}`,
		"an id":                     `{sink: s, source: s, types: [t], id: some-id}`,
		"unknown config keys":       `{sink: s, source: s, types: [t], config: {anything: goes, maxInFlightMessages: ten}}`,
	}
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, subscription(t, namespace, spec))
			require.NoError(t, err)
		})
	}
}

func TestSubscriptionIsRefused(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]struct{ spec, want string }{
		"no sink":               {`{source: s, types: [t]}`, `spec.sink: Required value`},
		"no source":             {`{sink: s, types: [t]}`, `spec.source: Required value`},
		"no types":              {`{sink: s, source: s}`, `spec.types: Required value`},
		"types that are null":   {`{sink: s, source: s, types: null}`, `spec.types: Required value`},
		"types that are a word": {`{sink: s, source: s, types: t}`, `spec.types: Invalid value: "string": spec.types in body must be of type array: "string"`},
		"a config of numbers":   {`{sink: s, source: s, types: [t], config: {maxInFlightMessages: 10}}`, `spec.config.maxInFlightMessages: Invalid value: "integer": spec.config.maxInFlightMessages in body must be of type string: "integer"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, subscription(t, namespace, tc.spec))
			require.Equal(t, []string{tc.want}, envtest.Causes(t, err))
		})
	}
}

func TestSubscriptionIsDefaulted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	inFlight10 := map[string]any{"maxInFlightMessages": "10"}
	tests := map[string]struct {
		fields       string
		wantMatching string
		wantConfig   map[string]any
	}{
		"both are filled":                   {``, "standard", inFlight10},
		"null is filled too":                {`, typeMatching: null, config: null`, "standard", inFlight10},
		"exact stays":                       {`, typeMatching: exact`, "exact", inFlight10},
		"a config without the key stays":    {`, config: {qos: AT_LEAST_ONCE}`, "standard", map[string]any{"qos": "AT_LEAST_ONCE"}},
		"an empty config stays":             {`, config: {}`, "standard", map[string]any{}},
		"a config with another value stays": {`, config: {maxInFlightMessages: "3"}`, "standard", map[string]any{"maxInFlightMessages": "3"}},
		"unknown fields are pruned":         {`, protocol: NATS, filters: {a: b}`, "standard", inFlight10},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, err := create(t, subscription(t, namespace, `{sink: s, source: o, types: [t]`+tc.fields+`}`))
			require.NoError(t, err)
			require.Equal(t, map[string]any{
				"sink": "s", "source": "o", "types": []any{"t"},
				"typeMatching": tc.wantMatching, "config": tc.wantConfig,
			}, stored.Object["spec"])
		})
	}
}

func TestManifestOfKymaIsAccepted(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("testdata/subscription.yaml")
	require.NoError(t, err)
	object := envtest.Object(t, string(manifest))
	object.SetNamespace(cluster.Environment(t).Namespace(t))

	stored, err := create(t, object)

	require.NoError(t, err)
	require.Equal(t, object.Object["spec"], stored.Object["spec"], "nothing may be lost or added")
	typed := &v1alpha2.Subscription{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored.Object, typed, true))
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	require.NoError(t, err)
	require.Equal(t, stored.Object["spec"], back["spec"])
}

func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	sub := stored(t, env)
	require.Empty(t, sub.Status.Conditions)

	want := v1alpha2.SubscriptionStatus{
		Ready: true,
		Types: []v1alpha2.EventType{{OriginalType: "order .v1", CleanType: "order.v1"}},
		Conditions: []v1alpha2.Condition{
			{
				Type: v1alpha2.ConditionSpecValid, Status: corev1.ConditionTrue, Reason: v1alpha2.ReasonSpecValid,
				LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
			},
			{Type: v1alpha2.ConditionActive, Status: corev1.ConditionFalse, Reason: v1alpha2.ReasonNotActive, Message: "why"},
		},
		Backend: v1alpha2.Backend{
			Types:                       []v1alpha2.JetStreamType{{OriginalType: "order .v1", ConsumerName: "0123"}},
			Ev2hash:                     -1,
			EventMeshHash:               2,
			EventMeshLocalHash:          3,
			WebhookAuthHash:             4,
			ExternalSink:                "a",
			FailedActivation:            "b",
			APIRuleName:                 "c",
			EventMeshTypes:              []v1alpha2.EventMeshType{{OriginalType: "d", EventMeshType: "e"}},
			EventMeshSubscriptionStatus: &v1alpha2.EventMeshSubscriptionStatus{Status: "f", StatusReason: "g", LastSuccessfulDelivery: "h", LastFailedDelivery: "i", LastFailedDeliveryReason: "j"},
		},
	}
	sub.Status = *want.DeepCopy()
	require.NoError(t, env.Client.Status().Update(t.Context(), sub))

	got := &v1alpha2.Subscription{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(sub), got))
	require.Empty(t, cmp.Diff(want, got.Status))
}

// Tools that read the object before the controller does must not consider it current. It contains the required fields
// of a status, so that the spec can be written.
func TestANewSubscriptionIsInProgressForKstatus(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	sub := stored(t, env)
	require.Equal(t, v1alpha2.SubscriptionStatus{ObservedGeneration: -1, Types: []v1alpha2.EventType{}}, sub.Status)
	gitops.RequireInProgress(t, sub)
	sub.Finalizers, sub.Spec.Paused = []string{v1alpha2.Finalizer}, true
	require.NoError(t, env.Client.Update(t.Context(), sub))
	require.Equal(t, int64(-1), sub.Status.ObservedGeneration)
	sub.Finalizers = nil
	require.NoError(t, env.Client.Update(t.Context(), sub))
}

// The controller writes an empty list of types when the spec is not valid, because the schema requires the list and
// rejects null.
func TestStatusWithoutTypesIsAccepted(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	sub := stored(t, env)
	sub.Status = v1alpha2.SubscriptionStatus{Conditions: []v1alpha2.Condition{{Type: v1alpha2.ConditionSpecValid, Status: corev1.ConditionFalse}}}
	require.NoError(t, env.Client.Status().Update(t.Context(), sub))

	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(v1alpha2.GroupVersion.WithKind("Subscription"))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(sub), raw))
	require.Equal(t, map[string]any{
		"ready":      false,
		"types":      []any{},
		"backend":    map[string]any{},
		"conditions": []any{map[string]any{"type": "Subscription spec valid", "status": "False"}},
	}, raw.Object["status"])
}

func TestStatusNeedsItsFields(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	sub := stored(t, env)
	tests := map[string]struct {
		status string
		want   []string
	}{
		"ready and types":        {`{}`, []string{"status.ready: Required value", "status.types: Required value"}},
		"both names of a type":   {`{"ready": true, "types": [{}]}`, []string{"status.types[0].cleanType: Required value", "status.types[0].originalType: Required value"}},
		"status of a condition":  {`{"ready": true, "types": [], "conditions": [{"type": "a b"}]}`, []string{"status.conditions[0].status: Required value"}},
		"name of a backend type": {`{"ready": true, "types": [], "backend": {"types": [{}], "emsTypes": [{}]}}`, []string{"status.backend.emsTypes[0].eventMeshType: Required value", "status.backend.emsTypes[0].originalType: Required value", "status.backend.types[0].originalType: Required value"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sub)
			require.NoError(t, err)
			var status map[string]any
			require.NoError(t, json.Unmarshal([]byte(tc.status), &status))
			object["status"] = status
			changed := &unstructured.Unstructured{Object: object}
			changed.SetGroupVersionKind(v1alpha2.GroupVersion.WithKind("Subscription"))
			err = env.Client.Status().Update(t.Context(), changed)
			require.ElementsMatch(t, tc.want, envtest.Causes(t, err))
		})
	}
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	sub := stored(t, env)
	sub.Status.Ready = true
	require.NoError(t, env.Client.Status().Update(t.Context(), sub))

	table := env.Table(t, v1alpha2.GroupVersion.WithResource("subscriptions"), sub.Namespace)

	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}
	require.Equal(t, []string{"Name", "Ready", "Age"}, names)
	require.Len(t, table.Rows, 1)
	require.Equal(t, []any{sub.Name, "true"}, table.Rows[0].Cells[:2])
}

func TestNamesOfTheResource(t *testing.T) {
	t.Parallel()
	resource := cluster.Environment(t).Resource(t, v1alpha2.GroupVersion.WithResource("subscriptions"))
	require.Equal(t, "Subscription", resource.Kind)
	require.Equal(t, "subscription", resource.SingularName)
	require.Empty(t, resource.ShortNames)
	require.Equal(t, []string{"kyma-eventing"}, resource.Categories)
	require.True(t, resource.Namespaced)
}

// stored creates a Subscription.
func stored(t *testing.T, env *envtest.Environment) *v1alpha2.Subscription {
	t.Helper()
	sub := &v1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: env.Namespace(t)},
		Spec:       v1alpha2.SubscriptionSpec{Sink: "http://a.b.svc.cluster.local", Source: "shop", Types: []string{"order.v1"}},
	}
	require.NoError(t, env.Client.Create(t.Context(), sub))
	return sub
}

// The CRD defines what is accepted, so these tests need a real kube-apiserver.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// subscription returns a Subscription with the given YAML as its spec.
func subscription(t *testing.T, namespace, spec string) *unstructured.Unstructured {
	t.Helper()
	return envtest.Object(t, `
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {generateName: sub-, namespace: `+namespace+`}
spec: `+spec)
}

// create creates the object with dry run, and returns the object that the kube-apiserver would have stored.
func create(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	stored := object.DeepCopy()
	err := cluster.Environment(t).Client.Create(t.Context(), stored, client.DryRunAll)
	return stored, err
}
