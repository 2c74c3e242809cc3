package alerts

import (
	"maps"
	"slices"
	"time"
	"unique"
)

// history is what the readings have shown lately.
type history struct {
	last  time.Time
	pods  map[string]counted
	ticks map[string][]tick // by metric, the oldest first
}

// counted are the counters of a pod at its last reading.
type counted struct {
	started time.Time
	totals  map[string]map[handle]float64 // by metric
}

// tick is what one round of readings has shown of a metric: values of a gauge, what a counter grew by.
type tick struct {
	at     time.Time
	values map[handle]float64
}

// add adds a round of readings. Pods that are not among them keep their counters for a round in which they answer.
func (h *history) add(at time.Time, readings []Reading, pods []string) {
	round := map[string]map[handle]float64{}
	for name := range measures {
		round[name] = map[handle]float64{}
	}
	maps.DeleteFunc(h.pods, func(pod string, _ counted) bool { return !slices.Contains(pods, pod) })
	for i := range readings {
		h.addPod(&readings[i], round)
	}
	for name, values := range round {
		old := h.ticks[name]
		for len(old) > 0 && at.Sub(old[0].at) >= measures[name].window {
			old = old[1:]
		}
		h.ticks[name] = append(old, tick{at, values})
	}
	h.last = at
}

func (h *history) addPod(r *Reading, round map[string]map[handle]float64) {
	began := r.startedAt()
	before, known := h.pods[r.Pod]
	restarted := known && !began.Equal(before.started)
	grew := known || began.After(h.last) && !h.last.IsZero() // else it is not known since when
	now := counted{started: began, totals: map[string]map[handle]float64{}}
	for name, m := range measures {
		values := r.values(name)
		if !m.counts {
			for of, value := range values {
				round[name][of] = max(round[name][of], value)
			}
			continue
		}
		now.totals[name] = values
		if !grew {
			continue
		}
		for of, total := range values {
			if old := before.totals[name][of]; !restarted && old <= total {
				total -= old
			}
			if total > 0 {
				round[name][of] += total
			}
		}
	}
	h.pods[r.Pod] = now
}

// latest returns the values of a gauge at the last round.
func (h *history) latest(name string) map[subject]float64 {
	found := map[subject]float64{}
	if ticks := h.ticks[name]; len(ticks) > 0 {
		for of, value := range ticks[len(ticks)-1].values {
			found[of.Value()] = value
		}
	}
	return found
}

// highest returns the maximum of a gauge in its window.
func (h *history) highest(name string) map[subject]float64 {
	found := map[subject]float64{}
	for _, each := range h.ticks[name] {
		for of, value := range each.values {
			found[of.Value()] = max(found[of.Value()], value)
		}
	}
	return found
}

// increase returns what a counter grew by in its window.
func (h *history) increase(name string) map[subject]float64 {
	found := map[subject]float64{}
	for _, each := range h.ticks[name] {
		for of, value := range each.values {
			found[of.Value()] += value
		}
	}
	return found
}

// slope returns the change of a gauge per second in its window, by least squares, as deriv of PromQL.
func (h *history) slope(name string, of subject) float64 {
	var n, sumX, sumY, sumXY, sumXX float64
	about := unique.Make(of)
	for _, each := range h.ticks[name] {
		y, is := each.values[about]
		if !is {
			continue
		}
		x := each.at.Sub(h.ticks[name][0].at).Seconds()
		n, sumX, sumY, sumXY, sumXX = n+1, sumX+x, sumY+y, sumXY+x*y, sumXX+x*x
	}
	spread := n*sumXX - sumX*sumX
	if spread == 0 {
		return 0
	}
	return (n*sumXY - sumX*sumY) / spread
}
