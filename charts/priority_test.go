package charts

import (
	"testing"

	"github.com/stretchr/testify/require"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

func TestPodsOfAReleaseHaveItsPriorityClass(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set   values
		class string
		value int32 // of the class that the chart creates; 0: none
		last  string
	}{
		"by default":                {nil, "rouse-2000000", 2000000, ""},
		"another value":             {values{"priorityClass.value=7"}, "rouse-7", 7, ""},
		"another name":              {values{"priorityClass.name=urgent"}, "urgent", 2000000, ""},
		"a class that exists":       {values{"priorityClass.create=false", "priorityClass.name=urgent"}, "urgent", 0, "urgent"},
		"none":                      {values{"priorityClass.create=false"}, "", 0, ""},
		"by the value's first name": {values{"priorityClassName=urgent"}, "urgent", 0, "urgent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, append(values{"crds.keep=false", "operator.enabled=true"}, tc.set...))
			for _, w := range workloads(all) {
				want := tc.class
				if w.component() == "uninstall-rest" || w.component() == "uninstall-serverless" {
					want = tc.last // it runs after the release's own class was deleted, without which its pod would be rejected
				}
				require.Equal(t, want, w.Pod.Spec.PriorityClassName, w.GetName())
			}
			classes := of[*schedulingv1.PriorityClass](all)
			if tc.value == 0 {
				require.Empty(t, classes)
				return
			}
			require.Len(t, classes, 1)
			require.Equal(t, tc.class, classes[0].Name)
			require.Equal(t, tc.value, classes[0].Value)
			require.False(t, classes[0].GlobalDefault, "other pods must not get the class")
		})
	}
}
