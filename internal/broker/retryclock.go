package broker

import (
	"context"
	"sync"
	"time"
)

const (
	// clockInterval is how often the server is asked for the time, and clockFirst while it has not answered yet.
	clockInterval = 10 * time.Second
	clockFirst    = 250 * time.Millisecond
)

// serverClock is the time of the server that stores retries, which alone decides when they are due. That of this machine
// only measures what has passed since the server was asked, by the monotonic clock. It is never ahead, so that no retry
// comes early, and behind by no more than an answer takes.
type serverClock struct {
	ready chan struct{} // closed when the time is known

	mu   sync.Mutex
	at   time.Time // of this machine
	time time.Time // of the server, at that moment or a little later
}

func newServerClock() *serverClock { return &serverClock{ready: make(chan struct{})} }

func (k *serverClock) now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.time.Add(time.Since(k.at))
}

// learn records the server's time, which it sent between two moments of this machine. What was known before is kept if it may be true
// and is ahead of that.
func (k *serverClock) learn(server, asked, answered time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() {
		close(k.ready)
	} else if ahead := k.time.Add(answered.Sub(k.at)).Sub(server); ahead >= 0 && ahead <= answered.Sub(asked) {
		return
	}
	k.at, k.time = answered, server
}

// keep asks for the time until ctx ends.
func (k *serverClock) keep(ctx context.Context, c *Conn) {
	for ctx.Err() == nil {
		pause := clockInterval
		if c.queryTime(ctx, k) != nil {
			pause = clockFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (c *Conn) queryTime(ctx context.Context, k *serverClock) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	asked := time.Now()
	stream, err := c.js.Stream(ctx, RetryStream)
	if err != nil {
		return mapError(err)
	}
	k.learn(stream.CachedInfo().TimeStamp, asked, time.Now())
	return nil
}
