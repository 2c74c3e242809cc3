package admin

import (
	"context"
	"net/http"
	"time"
)

// Bounds of requests at a time. Each that reads holds a page or a dead letter, several times while it is written as JSON, until
// its client has read the answer; each that changes something holds a batch of dead letters.
const (
	readersAtATime  = 4
	changersAtATime = 2
	// slotWait is how long a request waits for others.
	slotWait = 10 * time.Second
)

// slots bound the requests at a time.
type slots chan struct{}

// limit has a request wait for a slot, which it keeps until it is answered.
func (p slots) limit(ctx context.Context, do func() error) error {
	if p == nil {
		return do()
	}
	timeout := time.NewTimer(slotWait)
	defer timeout.Stop()
	select {
	case p <- struct{}{}:
		defer func() { <-p }()
		return do()
	case <-timeout.C:
		return httpError{http.StatusServiceUnavailable, "this eventbridge answers as many such requests as it may at a time, try again"}
	case <-ctx.Done():
		return ctx.Err()
	}
}
