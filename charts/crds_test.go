package charts

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestUpgradeIsRejectedWhileObjectsMayBeStoredInAMissingVersion(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	try := tryHelmOn(t, env.Config)
	const name = "functions.serverless.kyma-project.io"
	install := []string{"install", "rouse", chart, "--take-ownership", "--dry-run=server"}
	ctx := context.WithoutCancel(t.Context())
	change := func(change func(*apiextensionsv1.CustomResourceDefinition)) {
		t.Helper()
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, env.Client.Get(ctx, client.ObjectKey{Name: name}, crd))
		before := crd.DeepCopy()
		change(crd)
		require.NoError(t, env.Client.Patch(ctx, crd, client.MergeFrom(before)))
	}
	change(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Storage = false
		older := crd.Spec.Versions[0].DeepCopy()
		older.Name, older.Served, older.Storage = "v1alpha1", false, true
		crd.Spec.Versions = append(crd.Spec.Versions, *older)
	})
	change(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = true, false
	})

	out, err := try(install...)
	require.Error(t, err, out)
	require.Contains(t, out, "CustomResourceDefinition functions.serverless.kyma-project.io: its objects may be stored as v1alpha1, which this release does not have")
	require.Contains(t, out, "kubectl get functions.v1alpha2.serverless.kyma-project.io -A -o json | kubectl replace -f -")
	require.Contains(t, out, `-p '{"status":{"storedVersions":["v1alpha2"]}}'`)
	out, err = try(append(install, "--set", "crds.enabled=false")...)
	require.NoError(t, err, "a release without the CRD: "+out)

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"storedVersions":["v1alpha2"]}}`))
	require.NoError(t, env.Client.Status().Patch(ctx, crd, patch))
	change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = crd.Spec.Versions[:1] })
	out, err = try(install...)
	require.NoError(t, err, out)
}

func TestReleaseThatWouldDeleteTheCRDsIsRejected(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	try := tryHelmOn(t, env.Config)
	const name = "functions.serverless.kyma-project.io"
	annotate := func(annotations string) {
		t.Helper()
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":`+annotations+`}}`))
		require.NoError(t, env.Client.Patch(context.WithoutCancel(t.Context()), crd, patch))
	}
	t.Cleanup(func() {
		annotate(`{"meta.helm.sh/release-name":null,"meta.helm.sh/release-namespace":null,"helm.sh/resource-policy":null}`)
	})
	for annotations, refused := range map[string]bool{
		`{"meta.helm.sh/release-name":"rouse","meta.helm.sh/release-namespace":"` + namespace + `","helm.sh/resource-policy":null}`:   true,
		`{"meta.helm.sh/release-name":"rouse","meta.helm.sh/release-namespace":"` + namespace + `","helm.sh/resource-policy":"keep"}`: false,
		`{"meta.helm.sh/release-name":"other","meta.helm.sh/release-namespace":"` + namespace + `","helm.sh/resource-policy":null}`:   false,
		`{"meta.helm.sh/release-name":"rouse","meta.helm.sh/release-namespace":"elsewhere","helm.sh/resource-policy":null}`:           false,
	} {
		annotate(annotations)
		out, err := try("install", "rouse", chart, "--dry-run=server", "--set", "crds.enabled=false")
		require.Equal(t, refused, err != nil, annotations+out)
		if refused {
			require.Contains(t, out, "Helm would delete the CustomResourceDefinition "+name+" of this release with all its objects")
		}
	}
}
