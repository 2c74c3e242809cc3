package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// closedSubject is what a stream of events takes that is not ready: nobody publishes there.
const closedSubject = "rouse.not-ready"

// EnsureStreamsFor is EnsureStreams, and has a stream of events that is new take no event before the consumers are in it:
// it would confirm and drop what they want. Those that NATS refuses are left to whoever ensures them.
func (c *Conn) EnsureStreamsFor(ctx context.Context, o StreamOptions, interested func(ctx context.Context) ([]Consumer, error)) error {
	if err := c.prepareStream(ctx, eventStream(o), interested); err != nil {
		return fmt.Errorf("make stream %q: %w", o.Name, err)
	}
	return c.EnsureStreams(ctx, o)
}

// prepareStream also goes on with what another process has begun.
func (c *Conn) prepareStream(
	ctx context.Context, wanted jetstream.StreamConfig, interested func(ctx context.Context) ([]Consumer, error),
) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	closed := []string{closedSubject}
	stream, err := c.js.Stream(ctx, wanted.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		wanted.Subjects = closed
		err = c.createStream(ctx, wanted)
	case err == nil && !slices.Equal(stream.CachedInfo().Config.Subjects, closed):
		return nil
	}
	if err != nil {
		return mapError(err)
	}
	consumers, err := interested(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(consumers))
	eachOf(len(consumers), func(i int) { errs[i] = c.EnsureConsumer(ctx, wanted.Name, consumers[i]) })
	for _, err := range errs {
		if isAny(err, ErrNotConnected, ErrTimeout, ErrNoStream) {
			return err // it may work soon
		}
	}
	return nil
}
