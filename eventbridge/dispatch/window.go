package dispatch

import "time"

// window is how many deliveries at a time a sink is trusted with. A sink that can take nothing gets one at a time, after
// growing pauses; when it answers again the window doubles with each round, so that not all that waited comes at once.
type window struct {
	most     int
	limit    int
	failures int // in a row
	pauses   int // in a row
	answers  uint64
}

const (
	// tolerated failures in a row say nothing about the sink: some events always fail.
	tolerated     = 10
	firstPause    = 100 * time.Millisecond
	longestPause  = time.Second
	maxPauseShift = 4
)

func newWindow(most int) window { return window{most: most, limit: most} }

func (w *window) answered() {
	w.failures, w.pauses = 0, 0
	w.answers++
	w.limit = min(w.limit+1, w.most)
}

// strained returns how long the sink is to be left alone, 0 for not at all.
func (w *window) strained() time.Duration {
	w.failures++
	if w.pauses == 0 && w.failures < max(tolerated, w.limit) {
		return 0
	}
	pause := min(firstPause<<min(w.pauses, maxPauseShift), longestPause)
	w.failures, w.limit = 0, 1
	w.pauses++
	return pause
}
