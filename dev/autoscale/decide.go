package autoscale

import (
	"time"

	"github.com/rouse-run/rouse/internal/kedarules"
)

// bounds are what a Function allows.
type bounds struct {
	kedarules.Bounds

	stabilization time.Duration // how long a backlog has to be small before replicas go
}

// observation is what a poll learned. A failed one has no metrics.
type observation struct {
	active  bool
	metrics []kedarules.Metric // the backlog first
	failed  bool
}

// state is what is known of a Function. It is a plain value without a lock or a clock.
type state struct {
	scale           kedarules.Scale
	holds           int // HTTP requests that need it awake
	recommendations kedarules.Recommendations
}

// bound brings the replicas between the bounds, without waking what may sleep.
func (s *state) bound(b bounds) {
	s.scale.Replicas = min(max(s.scale.Replicas, b.Min), b.Max)
}

// wake takes notice of work that is there.
func (s *state) wake(now time.Time, b bounds) {
	s.scale = s.scale.Request(true, false, now, b.Bounds)
}

// hold takes notice of a request that needs the Function awake.
func (s *state) hold(now time.Time, b bounds) {
	s.holds++
	s.wake(now, b)
}

// release takes notice of its end, which is a sign of work too.
func (s *state) release(now time.Time) {
	s.holds--
	s.scale.LastActive = now
}

// observe decides after a poll: KEDA's part, and at once the HPA's, for which a cluster waits up to 15 s. Nothing limits how
// many replicas are added, since the policies in the controller's ScaledObjects allow more than one machine runs. A request
// that holds the Function is work also while the backlog is not known.
func (s *state) observe(o observation, now time.Time, b bounds) {
	s.scale = s.scale.Request(o.active || s.holds > 0, o.failed && s.holds == 0, now, b.Bounds)
	if o.failed || s.scale.Replicas == 0 {
		return
	}
	desired := min(kedarules.DesiredByMost(s.scale.Replicas, o.metrics), b.Max)
	s.scale.Replicas = b.Clamp(s.recommendations.Stabilize(s.scale.Replicas, desired, now, b.stabilization))
}
