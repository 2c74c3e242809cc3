package kedarules

import (
	"fmt"
	"math"
	"time"
)

// Status is what is known about the scaling of a target.
type Status struct {
	// Replicas is the desired number of replicas, Ready the number of those that are ready.
	Replicas int `json:"replicas"`
	Ready    int `json:"ready"`
	// Min, Max and CooldownSeconds are the ScaledObject's.
	Min             int   `json:"min"`
	Max             int   `json:"max"`
	CooldownSeconds int64 `json:"cooldownSeconds"`
	// Autoscaler reports that an HPA scales the target in a cluster without KEDA, after the cooldown also to zero.
	Autoscaler bool `json:"autoscaler,omitempty"`
	// LastActive is the time at which KEDA last found work. It is nil before that.
	LastActive *time.Time `json:"lastActive,omitempty"`
	// Active reports whether KEDA found work at its last poll.
	Active bool `json:"active"`
	// NoScaleIn and NoScaleOut name what a user has set to keep replicas, or to add none, such as an annotation.
	NoScaleIn  string `json:"noScaleIn,omitempty"`
	NoScaleOut string `json:"noScaleOut,omitempty"`
	// Forced names what a user has set to keep the target awake.
	Forced string `json:"forced,omitempty"`
	// Problem is the reason that KEDA, or the HPA, does not scale, or cannot read a metric.
	Problem string `json:"problem,omitempty"`
	// Metrics are the HPA's, as it last read them: none at 0 replicas.
	Metrics []Metric `json:"metrics,omitempty"`
	// Waiting is the number of events that were not acknowledged, and nil when it is unknown. Retrying is the number of those
	// that wait for their next attempt, which keep no replica.
	Waiting  *uint64 `json:"waiting,omitempty"`
	Retrying uint64  `json:"retrying,omitempty"`
}

// ReadAnnotations sets what users have set by annotations of the ScaledObject.
func (s *Status) ReadAnnotations(annotations map[string]string) {
	const prefix = "autoscaling.keda.sh/"
	for _, each := range []struct {
		name    string
		anyText bool // also "false" sets it
		effects []*string
	}{
		{"paused-scale-in", false, []*string{&s.NoScaleIn}},
		{"paused-scale-out", false, []*string{&s.NoScaleOut}},
		{"paused-replicas", true, []*string{&s.NoScaleIn, &s.NoScaleOut}},
		{"paused", false, []*string{&s.NoScaleIn, &s.NoScaleOut}},
		{"force-activation", false, []*string{&s.Forced}},
	} {
		if value, set := annotations[prefix+each.name]; set && (each.anyText || value != "false") {
			for _, effect := range each.effects {
				*effect = prefix + each.name
			}
		}
	}
}

// Explanation answers a question about the number of replicas.
type Explanation struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// Explain returns why the target sleeps, or why it does not, and why it has no more replicas.
func (s *Status) Explain(now time.Time) []Explanation {
	if s.Replicas == 0 {
		return []Explanation{{"why 0", s.whyAsleep()}}
	}
	explained := []Explanation{{"why not 0", s.whyAwake(now)}}
	if s.Max > 0 {
		explained = append(explained, Explanation{"why not more", s.whyNotMore()})
	}
	return explained
}

func (s *Status) whyAsleep() string {
	switch {
	case s.NoScaleOut != "":
		return s.NoScaleOut + " pauses scaling"
	case s.Problem != "":
		return s.by() + " cannot scale it: " + s.Problem
	case s.due() > 0:
		return counted(s.due(), "event is", "events are") + " pending, and " + s.by() + " has not set replicas yet; it polls even when it missed the wake"
	case s.Retrying > 0:
		return counted(s.Retrying, "event waits", "events wait") + " for the next attempt, which wakes it"
	case s.Waiting == nil:
		return s.by() + " found no work"
	}
	return "no event is pending, and no request"
}

func (s *Status) whyAwake(now time.Time) string {
	cooldown := time.Duration(s.CooldownSeconds) * time.Second
	switch {
	case s.NoScaleIn != "":
		return s.NoScaleIn + " pauses scaling"
	case s.Min > 0:
		return fmt.Sprintf("minReplicas is %d", s.Min)
	case s.Forced != "":
		return s.Forced + " keeps it awake"
	case s.Problem != "":
		return s.by() + " keeps the replicas while it cannot scale: " + s.Problem
	case s.due() > 0:
		return counted(s.due(), "event is", "events are") + " pending or in flight"
	case s.Active:
		return "at the last poll of " + s.by() + " there were pending events or requests"
	case s.Autoscaler:
		return fmt.Sprintf("the HPA removes the last replica when it has found no work for %s", cooldown)
	case s.LastActive == nil:
		return "KEDA has not decided yet"
	}
	if left := s.LastActive.Add(cooldown).Sub(now); left > 0 {
		return fmt.Sprintf("the cooldown of %s ends in %s", cooldown, left.Round(time.Second))
	}
	return fmt.Sprintf("the cooldown of %s is over: KEDA's next poll sets it to 0", cooldown)
}

// by names what scales the target.
func (s *Status) by() string {
	if s.Autoscaler {
		return "the HPA"
	}
	return "KEDA"
}

func (s *Status) whyNotMore() string {
	switch {
	case s.NoScaleOut != "":
		return s.NoScaleOut + " pauses scaling"
	case s.Problem != "":
		return s.by() + " keeps the replicas while it cannot scale: " + s.Problem
	case len(s.Metrics) == 0 && s.Replicas >= s.Max:
		return fmt.Sprintf("maxReplicas is %d", s.Max)
	case len(s.Metrics) == 0:
		return fmt.Sprintf("the HPA has read no metric yet; it reads them every %s", HPASyncPeriod)
	}
	most := s.Metrics[0]
	for _, each := range s.Metrics[1:] {
		if DesiredReplicas(s.Replicas, each.Value, each.Target) > DesiredReplicas(s.Replicas, most.Value, most.Target) {
			most = each
		}
	}
	desired := DesiredReplicas(s.Replicas, most.Value, most.Target)
	text := fmt.Sprintf("%s is %s at %s for each replica, enough for %d", most.Name, shown(most.Value), shown(most.Target), max(desired, 1))
	switch {
	case desired > s.Max:
		text += fmt.Sprintf(", and maxReplicas is %d", s.Max)
	case desired > s.Replicas:
		text += fmt.Sprintf(": the HPA adds replicas within %s", HPASyncPeriod)
	case max(desired, 1) < s.Replicas:
		text += ": the HPA removes replicas after the stabilization window"
	}
	return text
}

// due is the number of events that can be delivered now.
func (s *Status) due() uint64 {
	if s.Waiting == nil || *s.Waiting < s.Retrying {
		return 0
	}
	return *s.Waiting - s.Retrying
}

func counted(n uint64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// shown returns a number without decimals that say nothing.
func shown(value float64) string { return fmt.Sprintf("%g", math.Round(value*100)/100) }
