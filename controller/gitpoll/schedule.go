package gitpoll

import "time"

const (
	jitter       = 0.2 // of the interval at most earlier, so that repositories are not asked all at once
	firstRetry   = time.Second
	maxBackoff   = 10 * time.Minute
	checkTimeout = 10 * time.Second
	maxChecks    = 32 // at a time, of which a namespace has no more than it leaves free

	// slowAnswer is how long a check may take before the repository is asked less often. Where it answers at last, its checks
	// take no more than one part of so many of the time.
	slowAnswer = 2 * time.Second
	slowPart   = 30

	// leastPause is between two checks of a repository, whatever asks for them.
	leastPause = time.Second
	// leastAsked is between two checks that the annotation asks for.
	leastAsked = 5 * time.Second
)

// attempts are the checks of a repository that failed, or were slow, without another one between them.
type attempts struct {
	failures, slow int
	// transient is true when the last failure may end by itself, as with a server that is just starting. That is soon
	// checked again. A server that refuses us has an answer, and the longer it stays the less it is asked.
	transient bool
	// took is how long the last one lasted.
	took time.Duration
}

// after is what is known after one more check.
func (a attempts) after(failed, transient bool, took time.Duration) attempts {
	next := attempts{took: took}
	if failed {
		next.failures, next.transient = a.failures+1, transient
	}
	if took > slowAnswer {
		next.slow = a.slow + 1
	}
	return next
}

// nextCheck is how long to wait after a check: never longer than was promised for a repository that answers in time, and never less
// than a check takes that fails, so that a server which does not answer costs half of the time at most. random is from 0 to 1.
func nextCheck(interval time.Duration, last attempts, random float64) time.Duration {
	wait := interval
	switch {
	case last.failures > 0:
		wait = backoff(interval, last)
	case last.slow > 0:
		wait = max(interval, min(doubled(2*interval, last.slow-1), slowPart*last.took))
	}
	return time.Duration(float64(wait) * (1 - jitter*random))
}

func backoff(interval time.Duration, last attempts) time.Duration {
	first := firstRetry
	if !last.transient {
		first = 2 * interval
	}
	most := max(interval, maxBackoff)
	return max(min(doubled(first, last.failures-1), most), last.took)
}

// doubled is a duration doubled so many times, up to maxBackoff or a little more.
func doubled(wait time.Duration, times int) time.Duration {
	for range times {
		if wait >= maxBackoff {
			break
		}
		wait *= 2
	}
	return wait
}
