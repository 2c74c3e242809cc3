package workload

import (
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// ReplicaBounds are the least and the greatest number of replicas of a Function
// with a scaleConfig.
func ReplicaBounds(fn *v1alpha2.Function) (low, high int32) {
	low = ptr.Deref(fn.Spec.ScaleConfig.MinReplicas, 1)
	high = ptr.Deref(fn.Spec.ScaleConfig.MaxReplicas, max(low, 1))
	return low, high
}
