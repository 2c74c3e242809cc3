package v2_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/gateway/v2alpha1"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

// stored makes an APIRule that is there.
func stored(t *testing.T, env *envtest.Environment) *v2.APIRule {
	t.Helper()
	apiRule := &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: env.Namespace(t)},
		Spec: v2.APIRuleSpec{
			Hosts:   []v2.Host{"price.example.com"},
			Gateway: new("kyma-system/kyma-gateway"),
			Service: &v2.Service{Name: "price", Port: 80},
			Rules:   []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: new(true)}},
		},
	}
	require.NoError(t, env.Client.Create(t.Context(), apiRule))
	return apiRule
}

func TestBothVersionsShowTheSameObject(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	current := stored(t, env)
	current.Status = v2.APIRuleStatus{State: v2.StateReady, Description: "Reconciled successfully"}
	require.NoError(t, env.Client.Status().Update(t.Context(), current))

	earlier := &v2alpha1.APIRule{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(current), earlier))
	require.Equal(t, current.Spec, earlier.Spec)
	require.Equal(t, current.Status, earlier.Status)

	changed := earlier.DeepCopy()
	changed.Spec.Timeout = new(v2.Timeout(10))
	require.NoError(t, env.Client.Patch(t.Context(), changed, client.MergeFrom(earlier)))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(current), current))
	require.Equal(t, changed.Spec, current.Spec)
}

// Kyma's webhook leaves no spec of an APIRule that it cannot convert.
func TestAPIRuleWithoutASpecIsReadable(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	empty := apiRule(t, "v2alpha1", env.Namespace(t), "{}")
	delete(empty.Object, "spec")
	require.NoError(t, env.Client.Create(t.Context(), empty))
	current := &v2.APIRule{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(empty), current))
	require.Empty(t, current.Spec)
}

func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	apiRule := stored(t, env)
	require.Equal(t, v2.APIRuleStatus{State: v2.StateProcessing, ObservedGeneration: -1}, apiRule.Status, "nobody has seen it")
	want := v2.APIRuleStatus{
		LastProcessedTime: new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))),
		State:             v2.StateWarning, Description: "why",
	}
	apiRule.Status = *want.DeepCopy()
	require.NoError(t, env.Client.Status().Update(t.Context(), apiRule))
	got := &v2.APIRule{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(apiRule), got))
	require.True(t, want.LastProcessedTime.Equal(got.Status.LastProcessedTime))
	require.Equal(t, want.State, got.Status.State)
	require.Equal(t, want.Description, got.Status.Description)
}

// Tools that look before the controller does must not take it for one in force.
func TestAnAPIRuleThatNobodyHasSeenIsInProgress(t *testing.T) {
	t.Parallel()
	gitops.RequireInProgress(t, stored(t, cluster.Environment(t)))
}

func TestStatusHasAState(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	apiRule := stored(t, env)
	for _, state := range []v2.State{v2.StateReady, v2.StateWarning, v2.StateError, v2.StateProcessing, v2.StateDeleting} {
		apiRule.Status.State = state
		require.NoError(t, env.Client.Status().Update(t.Context(), apiRule))
	}
	for _, state := range []v2.State{"", "OK", "ready"} {
		apiRule.Status.State = state
		causes := envtest.Causes(t, env.Client.Status().Update(t.Context(), apiRule))
		require.Contains(t, causes[0], "status.state: Unsupported value")
	}
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	apiRule := stored(t, env)
	apiRule.Status.State = v2.StateReady
	require.NoError(t, env.Client.Status().Update(t.Context(), apiRule))
	for _, version := range versions {
		resource := v2.GroupVersion.WithResource("apirules")
		resource.Version = version
		table := env.Table(t, resource, apiRule.Namespace)
		var names []string
		for _, column := range table.ColumnDefinitions {
			names = append(names, column.Name)
		}
		require.Equal(t, []string{"Name", "Status", "Hosts"}, names)
		require.Len(t, table.Rows, 1)
		require.Equal(t, []any{"price", "Ready", `["price.example.com"]`}, table.Rows[0].Cells)
	}
}

func TestNamesOfTheResource(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		named := v2.GroupVersion.WithResource("apirules")
		named.Version = version
		resource := cluster.Environment(t).Resource(t, named)
		require.Equal(t, "APIRule", resource.Kind)
		require.Equal(t, "apirule", resource.SingularName)
		require.Empty(t, resource.ShortNames)
		require.Equal(t, []string{"kyma-api-gateway"}, resource.Categories)
		require.True(t, resource.Namespaced)
	}
}

func TestAPIRulesAreStoredAsV2alpha1WithoutAWebhook(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "apirules.gateway.kyma-project.io"}, crd))
	require.Equal(t, []string{v2alpha1.GroupVersion.Version}, crd.Status.StoredVersions)
	require.Equal(t, apiextensionsv1.NoneConverter, crd.Spec.Conversion.Strategy)
	require.Len(t, crd.Spec.Versions, 2)
	specs := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, version := range crd.Spec.Versions {
		require.True(t, version.Served)
		require.False(t, version.Deprecated)
		specs[version.Name] = version.Schema.OpenAPIV3Schema.Properties["spec"]
	}
	require.Equal(t, specs["v2"], specs["v2alpha1"])
}
