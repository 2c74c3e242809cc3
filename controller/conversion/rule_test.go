package conversion

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoVersionLeavesWhileItMayBeStored(t *testing.T) {
	t.Parallel()
	functions := Definition{Name: "functions.serverless.kyma-project.io", Versions: []string{"v1alpha2", "v1beta1"}, Storage: "v1beta1"}
	for name, tc := range map[string]struct{ stored, leaving []string }{
		"a new one":                                     {nil, nil},
		"the stored one alone":                          {[]string{"v1beta1"}, nil},
		"one that is there":                             {[]string{"v1alpha2", "v1beta1"}, nil},
		"one that is gone":                              {[]string{"v1alpha1", "v1alpha2"}, []string{"v1alpha1"}},
		"one that a later release has":                  {[]string{"v1beta1", "v1"}, []string{"v1"}},
		"two that are gone, in a cluster of many years": {[]string{"v1alpha1", "v1alpha0"}, []string{"v1alpha1", "v1alpha0"}},
	} {
		require.Equal(t, tc.leaving, functions.Leaving(tc.stored), name)
		require.Equal(t, tc.leaving == nil, functions.Check(tc.stored) == nil, name)
	}
}

func TestAVersionThatLeavesTooEarlyIsNamedWithWhatToDo(t *testing.T) {
	t.Parallel()
	functions := Definition{Name: "functions.serverless.kyma-project.io", Versions: []string{"v1alpha2"}, Storage: "v1alpha2"}
	require.EqualError(t, functions.Check([]string{"v1alpha1", "v1alpha2"}), "CustomResourceDefinition functions.serverless.kyma-project.io: "+
		"its objects may be stored as v1alpha1, which this release does not have. With the release that is installed, write all of them once more, "+
		"as in kubectl get functions.v1alpha2.serverless.kyma-project.io -A -o json | kubectl replace -f -, then kubectl patch crd "+
		`functions.serverless.kyma-project.io --subresource=status --type=merge -p '{"status":{"storedVersions":["v1alpha2"]}}', and upgrade again. See docs/convert.md`)
}
