package dev

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/autoscale"
	"github.com/rouse-run/rouse/dev/manifest"
)

func TestTargetsOf(t *testing.T) {
	t.Parallel()
	pricing := types.NamespacedName{Namespace: "orders", Name: "pricing"}
	for name, tc := range map[string]struct {
		scale *v1alpha2.ScaleConfig
		debug debugged
		want  map[types.NamespacedName]autoscale.Target
	}{
		"a Function with a scaleConfig is scaled within it": {
			scale: &v1alpha2.ScaleConfig{MinReplicas: ptr.To[int32](0), MaxReplicas: ptr.To[int32](3)},
			want:  map[types.NamespacedName]autoscale.Target{pricing: {Function: pricing, Max: 3}},
		},
		"a Function with a debugger has one replica": {
			scale: &v1alpha2.ScaleConfig{MinReplicas: ptr.To[int32](0), MaxReplicas: ptr.To[int32](3)},
			debug: debugged{"pricing": true},
			want:  map[types.NamespacedName]autoscale.Target{pricing: {Function: pricing, Min: 1, Max: 1}},
		},
		"a Function without a scaleConfig keeps its replicas": {
			want: map[types.NamespacedName]autoscale.Target{pricing: {Function: pricing, Min: 1, Max: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := &v1alpha2.Function{}
			fn.Namespace, fn.Name, fn.Spec.ScaleConfig = pricing.Namespace, pricing.Name, tc.scale
			set := manifest.Set{Functions: []manifest.Function{{Function: fn}}}
			require.Equal(t, tc.want, targetsOf(set, nil, nil, tc.debug))
		})
	}
}
