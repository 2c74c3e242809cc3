package gitpoll

import "time"

const (
	jitter       = 0.2 // of the interval at most earlier, so that repositories are not asked all at once
	firstRetry   = time.Second
	maxBackoff   = 10 * time.Minute
	checkTimeout = 30 * time.Second
	maxChecks    = 8 // at a time
)

// attempts are the checks of a repository that failed without a success between them.
type attempts struct {
	failures int
	// transient is true when the last failure may end by itself, as with a server that is just starting. That is soon
	// checked again. A server that refuses us has an answer, and the longer it stays the less it is asked.
	transient bool
	// took is how long the last one lasted.
	took time.Duration
}

// nextCheck is how long to wait after a check: never longer than was promised, and never less than a check takes that
// fails, so that a server which does not answer costs half of the time at most. random is from 0 to 1.
func nextCheck(interval time.Duration, last attempts, random float64) time.Duration {
	wait := interval
	if last.failures > 0 {
		wait = backoff(interval, last)
	}
	return time.Duration(float64(wait) * (1 - jitter*random))
}

func backoff(interval time.Duration, last attempts) time.Duration {
	wait := firstRetry
	if !last.transient {
		wait = 2 * interval
	}
	for range last.failures - 1 {
		if wait >= maxBackoff {
			break
		}
		wait *= 2
	}
	most := max(interval, maxBackoff)
	return max(min(wait, most), last.took)
}
