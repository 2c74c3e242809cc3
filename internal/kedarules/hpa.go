package kedarules

import (
	"math"
	"slices"
	"time"
)

// The defaults of a ScaledObject.
const (
	DefaultPollingInterval = 30 * time.Second  // pollingInterval
	DefaultCooldownPeriod  = 300 * time.Second // cooldownPeriod
	DefaultMaxReplicas     = 100               // maxReplicaCount
)

// Bounds are the replica limits of a ScaledObject.
type Bounds struct {
	// Min and Max are minReplicaCount and maxReplicaCount. Max is 1 at least.
	Min, Max int
	// Cooldown is cooldownPeriod.
	Cooldown time.Duration
}

// Clamp limits replicas to the bounds of the HPA, whose minimum is 1 where KEDA's is 0.
func (b Bounds) Clamp(replicas int) int { return min(max(replicas, b.Min, 1), b.Max) }

// Scale is KEDA's state of a ScaledObject's target.
type Scale struct {
	// Replicas is the present number of replicas.
	Replicas int
	// LastActive is status.lastActiveTime. The zero time has no cooldown, as with an initialCooldownPeriod of 0.
	LastActive time.Time
}

// Request returns the state after a poll, or after a push, which is active. failed means that a trigger returned an
// error, which does not count as work but keeps the replicas: there is no fallback. Scaling to zero removes all
// replicas at once, whatever the HPA desires. The rule is RequestScale of KEDA's pkg/scaling/executor.
func (s Scale) Request(active, failed bool, now time.Time, b Bounds) Scale {
	switch {
	case active && s.Replicas == 0:
		return Scale{Replicas: b.Clamp(b.Min), LastActive: now}
	case active && !failed:
		s.LastActive = now
	case active, failed:
	case b.Min == 0 && s.Replicas > 0 && now.After(s.LastActive.Add(b.Cooldown)):
		s.Replicas = 0
	case s.Replicas < b.Min:
		s.Replicas = b.Min
	}
	return s
}

// Number returns a target or a value from a response of an external scaler: the float takes precedence over the integer
// of versions before 2.17. The rule is buildMetricSpecs of KEDA's pkg/scalers/external_scaler.go.
func Number(float float64, whole int64) float64 {
	if float > 0 {
		return float
	}
	return float64(whole)
}

// The defaults of an HPA.
const (
	HPASyncPeriod                 = 15 * time.Second  // --horizontal-pod-autoscaler-sync-period
	DefaultScaleDownStabilization = 300 * time.Second // behavior.scaleDown.stabilizationWindowSeconds
)

// tolerance limits how far a value may deviate from its target before the number of replicas changes
// (--horizontal-pod-autoscaler-tolerance).
const tolerance = 0.1

// DesiredReplicas returns the number of replicas for a value with a target per replica. A target of type AverageValue,
// as KEDA makes it, disregards the readiness of replicas. At 0 replicas the HPA is inactive, and without a target there
// is no HPA. The rule is GetExternalPerPodMetricReplicas of Kubernetes' pkg/controller/podautoscaler.
func DesiredReplicas(current int, value, target float64) int {
	if current == 0 || target <= 0 {
		return current
	}
	if ratio := value / (target * float64(current)); 1-tolerance <= ratio && ratio <= 1+tolerance {
		return current
	}
	return int(min(math.Ceil(value/target), math.MaxInt32))
}

// Metric is the state of one metric of an HPA.
type Metric struct {
	// Name is its name without KEDA's prefix.
	Name string `json:"name,omitempty"`
	// Value is the current value.
	Value float64 `json:"value"`
	// Target is the target per replica.
	Target float64 `json:"target"`
}

// DesiredByMost returns the largest number of replicas that any metric requests, as an HPA decides over several. The rule is
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

// ScaleUpLimit returns the maximum number of replicas one sync later where behavior.scaleUp has no policies of its own: four
// more, or twice as many. The rule is calculateScaleUpLimitWithScalingRules of Kubernetes' pkg/controller/podautoscaler, with
// the policies of its pkg/apis/autoscaling/v2/defaults.go.
func ScaleUpLimit(current int) int { return max(current+4, 2*current) }

// Recommendations are the desired numbers of replicas within the stabilization window of behavior.scaleDown: each with
// its expiry, the largest and oldest first. One that is followed by a larger or an equal one has no further effect, and
// is dropped. The zero value is empty.
type Recommendations struct{ recent []recommendation }

type recommendation struct {
	at       time.Time
	replicas int
}

// Stabilize records the desired number and returns the number of replicas to set: a larger one at once, and a smaller
// one only as far as no recommendation within the window is larger. The rule is stabilizeRecommendationWithBehaviors of
// Kubernetes' pkg/controller/podautoscaler, with no window for behavior.scaleUp.
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

// The delays before KEDA reopens a stream to an external scaler.
const (
	FirstStreamBackoff = 2 * time.Second
	LastStreamBackoff  = time.Minute
)

// Backoff is a delay that doubles from First to Last.
type Backoff struct {
	First, Last time.Duration

	next time.Duration
}

// Next returns the delay before the next attempt. KEDA resets it only when a stream ended without an error: one that
// was interrupted after hours counts like one that never opened. The rule is runStreamIsActive of KEDA's
// pkg/scalers/external_scaler.go.
func (b *Backoff) Next(endedWithoutError bool) time.Duration {
	if endedWithoutError || b.next == 0 {
		b.next = b.First
	}
	pause := b.next
	b.next = min(2*pause, b.Last)
	return pause
}
