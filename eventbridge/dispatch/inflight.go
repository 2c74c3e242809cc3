package dispatch

import (
	"context"
	"sync"
	"time"
)

// inFlight is the set of messages that workers hold. One ticker extends them all: a timer per message
// would cost more than the delivery of a short one.
type inFlight struct {
	mu       sync.Mutex
	messages map[Message]struct{}
}

func newInFlight() *inFlight { return &inFlight{messages: map[Message]struct{}{}} }

func (f *inFlight) add(msg Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages[msg] = struct{}{}
}

func (f *inFlight) remove(msg Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.messages, msg)
}

func (f *inFlight) snapshot() []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make([]Message, 0, len(f.messages))
	for msg := range f.messages {
		held = append(held, msg)
	}
	return held
}

// keepAlive extends what is held every interval until ctx ends.
func (f *inFlight) keepAlive(ctx context.Context, interval time.Duration, failed func(error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, msg := range f.snapshot() {
			if err := msg.Extend(ctx); err != nil {
				failed(err)
			}
		}
	}
}
