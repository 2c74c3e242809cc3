package kedarules

import (
	"math"
	"slices"
	"time"
)

// What an HPA has whose behavior names none of them.
const (
	HPASyncPeriod                 = 15 * time.Second  // --horizontal-pod-autoscaler-sync-period
	DefaultScaleDownStabilization = 300 * time.Second // behavior.scaleDown.stabilizationWindowSeconds
)

// tolerance is how far a value may be from what the replicas are meant to carry before their number changes
// (--horizontal-pod-autoscaler-tolerance).
const tolerance = 0.1

// DesiredReplicas is how many replicas carry a value of which each is meant to carry the target. A target of the type
// AverageValue, as KEDA makes it, does not ask which of them are ready. At 0 replicas the HPA rests, and without a target
// there is no HPA. The rule is GetExternalPerPodMetricReplicas of Kubernetes' pkg/controller/podautoscaler.
func DesiredReplicas(current int, value, target float64) int {
	if current == 0 || target <= 0 {
		return current
	}
	if ratio := value / (target * float64(current)); 1-tolerance <= ratio && ratio <= 1+tolerance {
		return current
	}
	return int(min(math.Ceil(value/target), math.MaxInt32))
}

// Metric is what an HPA knows of one of its metrics.
type Metric struct {
	// Value is what there is now.
	Value float64
	// Target is what each replica is meant to carry of it.
	Target float64
}

// DesiredByMost is how many replicas the metric wants that wants most, as an HPA decides over several. The rule is
// computeReplicasForMetrics of Kubernetes' pkg/controller/podautoscaler.
func DesiredByMost(current int, metrics []Metric) int {
	if len(metrics) == 0 {
		return current
	}
	desired := 0
	for _, metric := range metrics {
		desired = max(desired, DesiredReplicas(current, metric.Value, metric.Target))
	}
	return desired
}

// ScaleUpLimit is how many replicas there may be one sync later where behavior.scaleUp has no policies of its own: four
// more, or twice as many. The rule is calculateScaleUpLimitWithScalingRules of Kubernetes' pkg/controller/podautoscaler, with
// the policies of its pkg/apis/autoscaling/v2/defaults.go.
func ScaleUpLimit(current int) int { return max(current+4, 2*current) }

// Recommendations are the numbers of replicas that were desired within the stabilization window of behavior.scaleDown: each
// with the time from which on a smaller one counts, the largest and oldest first. One that is followed by a larger or an equal
// one never counts again, and is forgotten. The zero value has none.
type Recommendations struct{ recent []recommendation }

type recommendation struct {
	at       time.Time
	replicas int
}

// Stabilize notes what is desired now and returns how many replicas there shall be: more at once, and fewer only as far as
// nothing within the window desired more. The rule is stabilizeRecommendationWithBehaviors of Kubernetes'
// pkg/controller/podautoscaler, with no window for behavior.scaleUp.
func (r *Recommendations) Stabilize(current, desired int, now time.Time, window time.Duration) int {
	r.recent = slices.DeleteFunc(r.recent, func(earlier recommendation) bool {
		return earlier.replicas <= desired || !now.Before(earlier.at.Add(window))
	})
	r.recent = append(r.recent, recommendation{at: now, replicas: desired})
	if desired >= current {
		return desired
	}
	return min(current, r.recent[0].replicas)
}
