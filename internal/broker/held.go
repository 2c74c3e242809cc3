package broker

import (
	"context"
	"fmt"
)

// Use is what a stream holds and what bounds it.
type Use struct {
	Bytes, Events uint64
	MaxBytes      int64 // 0 for no bound
	MaxPerSubject int64 // events; 0 for no bound
}

// Use asks what a stream holds. It is one request.
func (c *Conn) Use(ctx context.Context, stream string) (Use, error) {
	if !c.Connected() {
		return Use{}, fmt.Errorf("ask what stream %q holds: %w", stream, ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return Use{}, fmt.Errorf("ask what stream %q holds: %w", stream, mapError(err))
	}
	info := handle.CachedInfo()
	return Use{
		Bytes: info.State.Bytes, Events: info.State.Msgs,
		MaxBytes: max(info.Config.MaxBytes, 0), MaxPerSubject: max(info.Config.MaxMsgsPerSubject, 0),
	}, nil
}

// HeldBytes is what the messages take in their stream that a consumer has not settled. They are read until they
// take enough. Of those that were delivered, of which others may be settled, it is the share that is not.
func (c *Conn) HeldBytes(ctx context.Context, stream, consumer string, enough int64) (int64, error) {
	if !c.Connected() {
		return 0, fmt.Errorf("read what %q holds: %w", consumer, ErrNotConnected)
	}
	handle, err := c.js.Consumer(ctx, stream, consumer)
	if err != nil {
		return 0, fmt.Errorf("read what %q holds: %w", consumer, mapError(err))
	}
	info := handle.CachedInfo()
	var pending, delivered int64
	deliveries := 0
	for _, filter := range subjects(info.Config) {
		err := c.readStored(ctx, stream, filter, info.AckFloor.Stream+1, func(m storedMessage) bool {
			if m.sequence <= info.Delivered.Stream {
				delivered += m.size
				deliveries++
			} else {
				pending += m.size
			}
			return pending < enough
		})
		if err != nil {
			return 0, fmt.Errorf("read what %q holds: %w", consumer, err)
		}
	}
	if deliveries > info.NumAckPending {
		delivered = delivered / int64(deliveries) * int64(info.NumAckPending)
	}
	return pending + delivered, nil
}
