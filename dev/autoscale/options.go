package autoscale

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Target is one Function.
type Target struct {
	// Function names it.
	Function types.NamespacedName
	// Min and Max are how many replicas it may have.
	Min, Max int
	// LagThreshold is the backlog that one replica is meant to carry; 0 leaves that to its Subscriptions.
	LagThreshold int64
}

// Options pace the decisions.
type Options struct {
	// Cooldown is how long a Function stays awake without work.
	Cooldown time.Duration
	// Polling is the pause between polls.
	Polling time.Duration
	// ScaleDown is how long a backlog has to be small before all replicas but one may go.
	ScaleDown time.Duration
}

// DefaultOptions are quicker than a cluster's, because the scaler is near and a user watches.
func DefaultOptions() Options {
	return Options{Cooldown: 5 * time.Second, Polling: 500 * time.Millisecond, ScaleDown: 3 * time.Second}
}
