package git

import "time"

const (
	jitter       = 0.2 // of the interval at most earlier, so that repositories are not asked all at once
	maxBackoff   = 10 * time.Minute
	checkTimeout = 30 * time.Second
	maxChecks    = 8 // at a time
)

// nextCheck is how long to wait after a check: never longer than was promised. random is from 0 to 1.
func nextCheck(interval time.Duration, failures int, random float64) time.Duration {
	wait := interval
	for range failures {
		if wait >= maxBackoff {
			break
		}
		wait = min(2*wait, maxBackoff)
	}
	return time.Duration(float64(wait) * (1 - jitter*random))
}
