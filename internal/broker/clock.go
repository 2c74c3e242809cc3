package broker

import (
	"context"
	"sync"
	"time"
)

const (
	// clockInterval is the interval at which the server is asked for the time, and clockFirst while it has not answered yet.
	clockInterval = 10 * time.Second
	clockFirst    = 250 * time.Millisecond
)

// ServerClock is the time of the server that stores retries, which alone decides when they and other events are due. That of this machine
// only measures what has passed since the server was asked, by the monotonic clock. It is never ahead, so that nothing
// comes early, and behind by no more than an answer takes.
type ServerClock struct {
	conn  *Conn
	ready chan struct{} // closed when the time is known

	mu   sync.Mutex
	at   time.Time // of this machine
	time time.Time // of the server, at that moment or a little later
}

// NewServerClock returns a clock that has no time before Keep has asked for it.
func NewServerClock(c *Conn) *ServerClock { return &ServerClock{conn: c, ready: make(chan struct{})} }

// Ready is closed when the time is known.
func (k *ServerClock) Ready() <-chan struct{} { return k.ready }

// Now returns the server's time.
func (k *ServerClock) Now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.time.Add(time.Since(k.at))
}

// learn records the server's time, which it sent between two moments of this machine. What was known before is kept if it may be true
// and is ahead of that.
func (k *ServerClock) learn(server, asked, answered time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() {
		close(k.ready)
	} else if ahead := k.time.Add(answered.Sub(k.at)).Sub(server); ahead >= 0 && ahead <= answered.Sub(asked) {
		return
	}
	k.at, k.time = answered, server
}

// Keep asks for the time until ctx ends.
func (k *ServerClock) Keep(ctx context.Context) {
	for ctx.Err() == nil {
		pause := clockInterval
		if k.query(ctx) != nil {
			pause = clockFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (k *ServerClock) query(ctx context.Context) error {
	if !k.conn.Connected() {
		return ErrNotConnected
	}
	asked := time.Now()
	stream, err := k.conn.js.Stream(ctx, RetryStream)
	if err != nil {
		return mapError(err)
	}
	k.learn(stream.CachedInfo().TimeStamp, asked, time.Now())
	return nil
}
