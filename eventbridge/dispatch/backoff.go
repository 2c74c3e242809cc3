package dispatch

import (
	"math"
	"time"
)

// Backoff computes how long to wait before an attempt is repeated: Base doubles with each attempt up to
// Max, spread by +-Jitter (a fraction) so that a recovering sink is not met by a wave.
type Backoff struct {
	Base   time.Duration
	Max    time.Duration
	Jitter float64
}

// Delay is the wait after the given attempt (from 1). The spread comes from random, in [0, 1). A longer
// wait that the sink asked for is honoured, up to Max, and spread upwards only.
func (b Backoff) Delay(attempt int, asked time.Duration, random float64) time.Duration {
	delay := min(math.Ldexp(float64(b.Base), max(attempt-1, 0)), float64(b.Max))
	delay *= 1 + b.Jitter*(2*random-1)
	wanted := float64(asked) * (1 + b.Jitter*random)
	return time.Duration(min(max(delay, wanted), float64(b.Max)))
}
