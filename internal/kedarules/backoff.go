package kedarules

import "time"

// What KEDA waits before it opens a stream to an external scaler again.
const (
	FirstStreamBackoff = 2 * time.Second
	LastStreamBackoff  = time.Minute
)

// Backoff is a pause that doubles from First to Last.
type Backoff struct {
	First, Last time.Duration

	next time.Duration
}

// Next is the pause before another attempt. KEDA forgets the earlier ones only when a stream has come to an end without an
// error: one that was killed after hours counts like one that never opened. The rule is runStreamIsActive of KEDA's
// pkg/scalers/external_scaler.go.
func (b *Backoff) Next(endedWithoutError bool) time.Duration {
	if endedWithoutError || b.next == 0 {
		b.next = b.First
	}
	pause := b.next
	b.next = min(2*pause, b.Last)
	return pause
}
