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
	silent  int
}

// NewWatch returns a Watch without readings.
func NewWatch(limits Limits) *Watch {
	return &Watch{
		limits:  limits,
		history: history{pods: map[string]counted{}, ticks: map[string][]tick{}},
		since:   map[string]map[subject]time.Time{},
	}
}

// Observe adds a round of readings, of those pods that have answered.
func (w *Watch) Observe(at time.Time, readings []Reading, pods []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = len(pods) - len(readings)
	w.history.add(at, readings, pods)
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

// State is what a Watch has found.
type State struct {
	// Firing has the critical alerts first.
	Firing []Alert `json:"firing"`
	// Silent is the number of processes that did not report, whose alerts may be missing.
	Silent int `json:"silent"`
}

// State returns the alerts of a namespace, or all when it is empty, at most as many. It is nil before the first round.
func (w *Watch) State(namespace string, most int) *State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.history.last.IsZero() {
		return nil
	}
	found := &State{Firing: []Alert{}, Silent: w.silent}
	for i := range w.firing {
		if len(found.Firing) < most && (namespace == "" || w.firing[i].Namespace == namespace) {
			found.Firing = append(found.Firing, w.firing[i])
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
