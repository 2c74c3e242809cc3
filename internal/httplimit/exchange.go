package httplimit

import (
	"sync/atomic"
	"time"
)

const (
	// slowAfter is the time after which waiting for bytes counts: less than that the network and the scheduler take.
	slowAfter = 100 * time.Millisecond
	// unhurriedRate is how many bytes a second a client sends that is not waited for.
	unhurriedRate = 32 << 10
)

// Exchange measures a client that sends a request's body and reads its answer.
type Exchange struct {
	body  Meter
	write atomic.Int64 // when the write began that has not ended
}

// BeginRead and EndRead enclose a read of the body.
func (e *Exchange) BeginRead(now time.Time) {
	e.body.Rate = unhurriedRate
	e.body.Begin(now)
}

// EndRead is called with the number of bytes that were read.
func (e *Exchange) EndRead(now time.Time, bytes int) { e.body.End(now, bytes) }

// BeginWrite and EndWrite enclose a write to the client.
func (e *Exchange) BeginWrite(now time.Time) { e.write.Store(now.UnixNano()) }

// EndWrite is called when what was written has been taken.
func (e *Exchange) EndWrite() { e.write.Store(0) }

// Writes reports whether something is being written to the client.
func (e *Exchange) Writes() bool { return e.write.Load() != 0 }

// Reset forgets how slow the client was with its last body.
func (e *Exchange) Reset() { e.body.Reset() }

// WaitsSince returns since when the server has waited for the client, in nanoseconds of Unix time, or 0 for one that keeps its pace.
func (e *Exchange) WaitsSince(now int64) int64 {
	since := int64(0)
	for _, begun := range [...]int64{e.body.Since(), e.write.Load()} {
		if begun != 0 && now-begun >= int64(slowAfter) && (since == 0 || begun < since) {
			since = begun
		}
	}
	return since
}
