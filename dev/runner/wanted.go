package runner

import (
	"math"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	// finish is how long busy requests of a replica may take that has to end, and maxFinish the same for a Function
	// with a longer FUNC_TIMEOUT, as in a cluster.
	finish    = 30 * time.Second
	maxFinish = 10 * time.Minute
	// debuggedFinish is short: a program may wait for its debugger to let it end.
	debuggedFinish = 2 * time.Second
)

// desiredReplicas is how many replicas a Function shall have when scaled is what it was last scaled to, or -1.
func desiredReplicas(fn manifest.Function, scaled int, exclusive bool) int {
	n := int(ptr.Deref(fn.Spec.Replicas, 1))
	if fn.Spec.ScaleConfig != nil {
		low, high := workload.ReplicaBounds(fn.Function)
		n = min(max(scaled, int(low)), int(max(low, high)))
	}
	if exclusive {
		n = min(n, 1)
	}
	return max(n, 0)
}

// finishTime is how long a replica may go on with what it does when it has to end. One with a debugger is in the way of
// the next.
func finishTime(fn manifest.Function, exclusive bool) time.Duration {
	if exclusive {
		return debuggedFinish
	}
	allowed := finish
	if timeout := fn.Timeout(); timeout > finish {
		allowed = min(time.Duration(math.Ceil(timeout.Seconds()))*time.Second, maxFinish)
	}
	return allowed
}
