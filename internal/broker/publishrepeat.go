package broker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Waits between two questions whether an earlier publish is stored. A server takes
// some milliseconds for what it replicates.
const (
	shortestRepeatWait = 5 * time.Millisecond
	longestRepeatWait  = 200 * time.Millisecond
)

// awaitEarlier publishes again what the stream neither takes nor confirms, because an
// earlier publish of the same event is under way to all servers: then it is
// confirmed as a repeat, or stored if the earlier one failed. What is still under
// way after the timeout keeps ErrInProcess.
func (p *Publisher) awaitEarlier(ctx context.Context, messages []*nats.Msg, errs []error) {
	if !anyInProcess(errs) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	for wait := shortestRepeatWait; anyInProcess(errs); wait = min(2*wait, longestRepeatWait) {
		select {
		case <-time.After(wait):
			p.repeat(ctx, messages, errs)
		case <-ctx.Done():
			return
		}
	}
}

// repeat publishes those that are in process, all at a time.
func (p *Publisher) repeat(ctx context.Context, messages []*nats.Msg, errs []error) {
	confirmations := make([]jetstream.PubAckFuture, len(messages))
	for i, message := range messages {
		if !errors.Is(errs[i], ErrInProcess) {
			continue
		}
		confirmation, err := p.js.PublishMsgAsync(message)
		if err != nil {
			errs[i] = mapError(err)
			continue
		}
		confirmations[i] = confirmation
	}
	for i, confirmation := range confirmations {
		if confirmation != nil {
			errs[i] = p.await(ctx, confirmation)
		}
	}
}

func anyInProcess(errs []error) bool {
	for _, err := range errs {
		if err != nil && errors.Is(err, ErrInProcess) {
			return true
		}
	}
	return false
}
