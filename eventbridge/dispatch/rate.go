package dispatch

import "time"

// rate spreads deliveries over time: one each interval, and a tenth of a second's worth at once after a rest.
type rate struct {
	interval time.Duration // 0 for no limit
	burst    time.Duration
	free     time.Time // when the next one is due
}

func newRate(perSecond int) rate {
	if perSecond <= 0 {
		return rate{}
	}
	return rate{interval: time.Second / time.Duration(perSecond), burst: time.Second / 10}
}

// reserve returns 0 and counts one, or returns how long to wait.
func (r *rate) reserve(now time.Time) time.Duration {
	if r.interval == 0 {
		return 0
	}
	if oldest := now.Add(-r.burst); r.free.Before(oldest) {
		r.free = oldest
	}
	if wait := r.free.Sub(now); wait > 0 {
		return wait
	}
	r.free = r.free.Add(r.interval)
	return 0
}
