package broker

import (
	"context"
	"fmt"
)

// Backlog is the work that one consumer has left.
type Backlog struct {
	// Pending events were not delivered yet.
	Pending uint64
	// AckPending events were delivered and are not settled, or wait for a retry.
	AckPending uint64
}

// Total is everything that is not settled.
func (b Backlog) Total() uint64 { return b.Pending + b.AckPending }

// Backlog asks the consumer's leader. ErrConsumerNotFound is an answer, the
// consumer has no backlog because it does not exist; after any other error the
// backlog is unknown.
func (c *Conn) Backlog(ctx context.Context, stream, consumer string) (Backlog, error) {
	if !c.Connected() {
		return Backlog{}, fmt.Errorf("read backlog of %q: %w", consumer, ErrNotConnected)
	}
	handle, err := c.js.Consumer(ctx, stream, consumer)
	if err != nil {
		return Backlog{}, fmt.Errorf("read backlog of %q: %w", consumer, mapError(err))
	}
	info := handle.CachedInfo()
	return Backlog{Pending: info.NumPending, AckPending: uint64(info.NumAckPending)}, nil
}
