package runner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ReplicaStatus is a process of a Function.
type ReplicaStatus struct {
	Name  string
	Ready bool
	// Ending reports that it gets no more calls.
	Ending bool
	// Older reports that it does not run the newest version.
	Older bool
	// Problem is why it is not ready; empty without a reason.
	Problem string
	Started time.Time
}

// Replicas returns the processes of a Function, the oldest first.
func (f *Functions) Replicas(name types.NamespacedName) []ReplicaStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.units[name]
	if u == nil {
		return nil
	}
	found := make([]ReplicaStatus, 0, len(u.replicas))
	for _, r := range u.replicas {
		status := ReplicaStatus{
			Name: r.name, Ready: r.stage == ready, Ending: r.stage == draining, Older: !u.current(r), Problem: r.silent, Started: r.started,
		}
		if r.overdue {
			status.Problem = "it was not ready in time"
		}
		found = append(found, status)
	}
	return found
}
