package httplimit

import (
	"sync/atomic"
	"time"
)

// Meter measures one direction of one client: what it sends, or what it reads. One goroutine begins and ends waits; any may call Since.
type Meter struct {
	// Rate is how many bytes a second are fast enough.
	Rate int64
	// Ahead is how far bytes may put a client ahead of its pace, for which it may stop later.
	Ahead time.Duration

	began  time.Time
	behind time.Duration // when the last wait ended
	since  atomic.Int64
}

// Begin notes that the server waits for its client from now on. It returns since when the client is behind: now, earlier for one that
// has been too slow, and later for one that is ahead.
func (m *Meter) Begin(now time.Time) (since time.Time) {
	m.began, since = now, now.Add(-m.behind)
	m.since.Store(since.UnixNano())
	return since
}

// End notes that the client has moved so many bytes, and is not waited for.
func (m *Meter) End(now time.Time, bytes int) {
	m.since.Store(0)
	allowed := time.Duration(int64(bytes) * int64(time.Second) / m.Rate)
	m.behind = max(-m.Ahead, m.behind+now.Sub(m.began)-allowed)
}

// Reset forgets how slow the client was.
func (m *Meter) Reset() { m.behind = 0 }

// Since returns since when the client is behind, in nanoseconds of Unix time, or 0 while it is not waited for.
func (m *Meter) Since() int64 { return m.since.Load() }
