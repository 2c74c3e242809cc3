package alerts

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Alert is an alert that fires.
type Alert struct {
	Name     string `json:"name"`
	Severity string `json:"severity"`
	// Namespace is empty for an alert about the installation.
	Namespace string `json:"namespace,omitempty"`
	Summary   string `json:"summary"`
	Remedy    string `json:"remedy"`
	// Since is when the condition began to hold, which an alert may have to do for a while.
	Since time.Time `json:"since"`

	of subject
}

// Fill is how full a stream is.
type Fill struct {
	Stream string
	Ratio  float64
}

// Watch finds what fires by the readings of all pods. It is safe for concurrent use.
type Watch struct {
	limits Limits

	mu      sync.Mutex
	history history
	since   map[string]map[subject]time.Time // by rule
	firing  []Alert
}

// NewWatch returns a Watch without readings.
func NewWatch(limits Limits) *Watch {
	return &Watch{
		limits:  limits,
		history: history{pods: map[string]counted{}, ticks: map[string][]tick{}},
		since:   map[string]map[subject]time.Time{},
	}
}

// Observe adds a round of readings, of the pods that have answered. Others of those that exist are read again later.
func (w *Watch) Observe(at time.Time, readings []Reading, exist func(pod string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.add(at, readings, exist)
	w.firing = nil
	for i := range rules {
		w.judge(&rules[i], at)
	}
	slices.SortFunc(w.firing, func(a, b Alert) int {
		return cmp.Or(
			strings.Compare(a.Severity, b.Severity), strings.Compare(a.Name, b.Name), strings.Compare(a.of.namespace, b.of.namespace),
			strings.Compare(a.of.name, b.of.name), strings.Compare(a.of.detail, b.of.detail),
		)
	})
}

func (w *Watch) judge(r *rule, at time.Time) {
	before, now := w.since[r.name], map[subject]time.Time{}
	for of, value := range r.find(&w.history, &w.limits) {
		since, held := before[of]
		if !held {
			since = at
		}
		now[of] = since
		if at.Sub(since) < r.holds(&w.limits) {
			continue
		}
		summary, remedy := r.text(of, value)
		w.firing = append(w.firing, Alert{
			Name: r.name, Severity: r.severity, Namespace: of.namespace, Summary: summary, Remedy: remedy, Since: since, of: of,
		})
	}
	w.since[r.name] = now
}

// Observed reports whether there was a reading.
func (w *Watch) Observed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.history.last.IsZero()
}

// Firing returns the alerts of a namespace, or all when it is empty, the critical ones first, at most as many.
func (w *Watch) Firing(namespace string, most int) []Alert {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := []Alert{}
	for i := range w.firing {
		if len(found) < most && (namespace == "" || w.firing[i].Namespace == namespace) {
			found = append(found, w.firing[i])
		}
	}
	return found
}

// Fills returns how full the streams are, by name.
func (w *Watch) Fills() []Fill {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []Fill
	for of, ratio := range w.history.latest(streamFill) {
		found = append(found, Fill{of.name, ratio})
	}
	slices.SortFunc(found, func(a, b Fill) int { return strings.Compare(a.Stream, b.Stream) })
	return found
}
