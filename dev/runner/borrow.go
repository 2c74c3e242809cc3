package runner

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// borrow chooses the ready replica with the fewest requests, and waits for one to become ready. It does not wait for a
// Function that does not start.
func (f *Functions) borrow(ctx context.Context, name types.NamespacedName) (*replica, error) {
	failures := -1
	for {
		f.mu.Lock()
		u, change := f.units[name], f.change
		chosen, why := f.choose(u, name, &failures)
		f.mu.Unlock()
		switch {
		case chosen != nil:
			return chosen, nil
		case why != nil:
			return nil, why
		}
		select {
		case <-change:
		case <-f.over:
			return nil, &refusal{http.StatusServiceUnavailable, "the local mode is being stopped"}
		case <-ctx.Done():
			return nil, f.late(name)
		}
	}
}

// choose is called with the lock held. failures is how often the Function had failed when the request came, or -1.
func (f *Functions) choose(u *unit, name types.NamespacedName, failures *int) (*replica, error) {
	if u == nil || u.removed {
		return nil, &refusal{http.StatusNotFound, fmt.Sprintf("there is no Function %s any more", name)}
	}
	if chosen := u.idlest(); chosen != nil {
		chosen.requests++
		return chosen, nil
	}
	if *failures < 0 {
		*failures = u.failures
	}
	if u.hopeless() || u.failures > *failures || (u.failures > 0 && time.Now().Before(u.retryAt)) {
		return nil, &refusal{http.StatusBadGateway, fmt.Sprintf("Function %s does not run: %s", name, u.lastError())}
	}
	return nil, nil
}

// idlest is the ready replica with the fewest requests; nil when none is ready.
func (u *unit) idlest() *replica {
	var chosen *replica
	for _, r := range u.replicas {
		if r.serves() && (chosen == nil || r.requests < chosen.requests) {
			chosen = r
		}
	}
	return chosen
}

// hopeless reports whether there is no prepared version and no preparation that runs or is due.
func (u *unit) hopeless() bool {
	return u.launch == nil && u.unprepared != "" && u.preparation.cancel == nil && !u.preparation.due
}

// late is the error of a request that was not answered in time.
func (f *Functions) late(name types.NamespacedName) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := fmt.Sprintf("Function %s was not ready within %s", name, f.options.StartWithin)
	if u := f.units[name]; u != nil {
		status := u.status()
		text += fmt.Sprintf(": it is %s, with %d of %d replicas ready", status.Phase, status.Ready, status.Desired)
		if status.LastError != "" {
			short, _, _ := strings.Cut(status.LastError, "\n")
			text += "; " + short
		}
	}
	return &refusal{http.StatusGatewayTimeout, text}
}

// giveBack returns a replica that borrow has chosen.
func (f *Functions) giveBack(r *replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.requests--
}

// awaitEnd returns when a replica that did not accept a connection serves no longer.
func (f *Functions) awaitEnd(ctx context.Context, r *replica) {
	for {
		f.mu.Lock()
		serves, change := r.serves(), f.change
		f.mu.Unlock()
		if !serves {
			return
		}
		select {
		case <-change:
		case <-r.process.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
