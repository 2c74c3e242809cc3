package conversion

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const functions = "functions.serverless.kyma-project.io"

// everStored lists the versions in which any release has stored objects. A listed version may leave a CRD only in a
// release whose notes describe the preparation; a new storage version has to be added.
var everStored = map[string][]string{
	functions:                                {"v1alpha2"},
	"subscriptions.eventing.kyma-project.io": {"v1alpha2"},
	"apirules.gateway.kyma-project.io":       {"v2alpha1"},
	"serverlesses.operator.kyma-project.io":  {"v1alpha1"},
	"schedules.rouse.run":                    {"v1alpha1"},
	"doors.rouse.run":                        {"v1alpha1"},
}

func TestCRDsKeepEveryVersionThatAReleaseHasStored(t *testing.T) {
	t.Parallel()
	definitions := ofTheRelease(t)
	require.Len(t, definitions, len(everStored))
	for _, definition := range definitions {
		require.NoError(t, definition.Check(everStored[definition.Name]))
		require.Contains(t, everStored[definition.Name], definition.Storage, "add it to everStored")
	}
}

func ofTheRelease(t *testing.T) []Definition {
	t.Helper()
	files, err := charts.CRDs()
	require.NoError(t, err)
	definitions, err := Definitions(files)
	require.NoError(t, err)
	return definitions
}

func TestTheStoredVersionCheckReportsUnknownVersions(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	run := func() (said string, unknown float64) {
		var lines strings.Builder
		log := funcr.New(func(_, line string) { lines.WriteString(line + "\n") }, funcr.Options{})
		registry := prometheus.NewRegistry()
		checker := NewChecker(ofTheRelease(t), env.Client, registry, log)
		require.NoError(t, checker.Start(t.Context()))
		return lines.String(), testutil.ToFloat64(checker.unreadable.WithLabelValues(functions))
	}
	said, unknown := run()
	require.Empty(t, said)
	require.Zero(t, unknown)

	// As in a cluster where Kyma stored the older version, and Rouse's chart did not install the CRD.
	store(t, env, "v1alpha1")
	store(t, env, "v1alpha2")
	said, unknown = run()
	require.Contains(t, said, "its objects may be stored as v1alpha1, which this release does not have")
	require.Contains(t, said, "kubectl patch crd "+functions)
	require.InDelta(t, 1, unknown, 0)

	// Apply the remedy of the message.
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: functions}, crd))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"storedVersions":["v1alpha2"]}}`))
	require.NoError(t, env.Client.Status().Patch(t.Context(), crd, patch))
	said, _ = run()
	require.Empty(t, said)
}

// store makes a version of Functions the storage version.
func store(t *testing.T, env *envtest.Environment, name string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: functions}, crd))
	before := crd.DeepCopy()
	if len(crd.Spec.Versions) == 1 {
		version := crd.Spec.Versions[0].DeepCopy()
		version.Name, version.Served, version.Storage = "v1alpha1", false, false
		crd.Spec.Versions = append(crd.Spec.Versions, *version)
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == name
	}
	require.NoError(t, env.Client.Patch(t.Context(), crd, client.MergeFrom(before)))
	require.Contains(t, crd.Status.StoredVersions, name)
}

func TestLeavingReturnsMissingStoredVersions(t *testing.T) {
	t.Parallel()
	functions := Definition{Name: "functions.serverless.kyma-project.io", Versions: []string{"v1alpha2", "v1beta1"}, Storage: "v1beta1"}
	for name, tc := range map[string]struct{ stored, leaving []string }{
		"a new CRD":                    {nil, nil},
		"only the stored version":      {[]string{"v1beta1"}, nil},
		"an existing version":          {[]string{"v1alpha2", "v1beta1"}, nil},
		"a removed version":            {[]string{"v1alpha1", "v1alpha2"}, []string{"v1alpha1"}},
		"a version of a later release": {[]string{"v1beta1", "v1"}, []string{"v1"}},
		"two removed versions":         {[]string{"v1alpha1", "v1alpha0"}, []string{"v1alpha1", "v1alpha0"}},
	} {
		require.Equal(t, tc.leaving, functions.Leaving(tc.stored), name)
		require.Equal(t, tc.leaving == nil, functions.Check(tc.stored) == nil, name)
	}
}

func TestRemovingAStoredVersionNamesTheRemedy(t *testing.T) {
	t.Parallel()
	functions := Definition{Name: "functions.serverless.kyma-project.io", Versions: []string{"v1alpha2"}, Storage: "v1alpha2"}
	require.EqualError(t, functions.Check([]string{"v1alpha1", "v1alpha2"}), "CustomResourceDefinition functions.serverless.kyma-project.io: "+
		"its objects may be stored as v1alpha1, which this release does not have. With the release that is installed, write all of them once more, "+
		"as in kubectl get functions.v1alpha2.serverless.kyma-project.io -A -o json | kubectl replace -f -, then kubectl patch crd "+
		`functions.serverless.kyma-project.io --subresource=status --type=merge -p '{"status":{"storedVersions":["v1alpha2"]}}', and upgrade again. See docs/convert.md`)
}
