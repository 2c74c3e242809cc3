package kedarules

import "time"

// What a ScaledObject has that names neither of them.
const (
	DefaultPollingInterval = 30 * time.Second  // pollingInterval
	DefaultCooldownPeriod  = 300 * time.Second // cooldownPeriod
	DefaultMaxReplicas     = 100               // maxReplicaCount
)

// Bounds are what a ScaledObject allows.
type Bounds struct {
	// Min and Max are minReplicaCount and maxReplicaCount. Max is 1 at least.
	Min, Max int
	// Cooldown is cooldownPeriod.
	Cooldown time.Duration
}

// Clamp brings replicas between the bounds of the HPA, whose minimum is 1 where KEDA's is 0.
func (b Bounds) Clamp(replicas int) int { return min(max(replicas, b.Min, 1), b.Max) }

// Scale is what KEDA knows of the target of a ScaledObject.
type Scale struct {
	// Replicas are those that it has.
	Replicas int
	// LastActive is status.lastActiveTime. The zero time has no cooldown, as with an initialCooldownPeriod of 0.
	LastActive time.Time
}

// Request is the decision after a poll, or after a push, which is active. Failed means that a trigger answered with an error,
// which counts as no sign of work and keeps what there is: there is no fallback. All replicas go together, whatever the HPA
// wants. The rule is RequestScale of KEDA's pkg/scaling/executor.
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

// Number is a target or a value in an answer of an external scaler: the float wins over the whole number that versions before
// 2.17 knew. The rule is buildMetricSpecs of KEDA's pkg/scalers/external_scaler.go.
func Number(float float64, whole int64) float64 {
	if float > 0 {
		return float
	}
	return float64(whole)
}
