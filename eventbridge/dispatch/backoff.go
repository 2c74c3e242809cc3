package dispatch

import (
	"math"
	"time"
)

// Growth is how the wait changes from attempt to attempt.
type Growth int

// The growths: the wait doubles, grows by Base, or stays.
const (
	Exponential Growth = iota
	Linear
	Constant
)

// Backoff computes how long to wait before an attempt is repeated: Base grows with each attempt up to
// Max, spread by +-Jitter (a fraction) so that a recovering sink is not met by a wave.
type Backoff struct {
	Growth Growth
	Base   time.Duration
	Max    time.Duration
	Jitter float64
}

// Delay is the wait after the given attempt (from 1). The spread comes from random, in [0, 1). A longer
// wait that the sink asked for is honoured, up to Max, and spread upwards only.
func (b Backoff) Delay(attempt int, asked time.Duration, random float64) time.Duration {
	delay := min(b.grown(max(attempt, 1)), float64(b.Max))
	delay *= 1 + b.Jitter*(2*random-1)
	wanted := float64(asked) * (1 + b.Jitter*random)
	return time.Duration(min(max(delay, wanted), float64(b.Max)))
}

func (b Backoff) grown(attempt int) float64 {
	switch b.Growth {
	case Linear:
		return float64(b.Base) * float64(attempt)
	case Constant:
		return float64(b.Base)
	default:
		return math.Ldexp(float64(b.Base), attempt-1)
	}
}
