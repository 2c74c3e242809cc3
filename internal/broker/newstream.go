package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// closedSubject is what a stream takes that is not ready: no client publishes there.
func closedSubject(stream string) string { return "rouse.not-ready." + stream }

// EnsureStreamsFor is EnsureStreams, and has a stream of events that is new take no event before the consumers are in it:
// it would confirm and drop what they want. Those that NATS refuses are left to their own EnsureConsumer. Its storage is
// reserved before that of the other streams.
func (c *Conn) EnsureStreamsFor(ctx context.Context, o StreamOptions, interested func(ctx context.Context) ([]Consumer, error)) error {
	if err := c.prepareStream(ctx, eventStream(o), interested); err != nil {
		return fmt.Errorf("make stream %q: %w", o.Name, err)
	}
	return c.ensureStreams(ctx, o)
}

// prepareStream also goes on with what another process has begun.
func (c *Conn) prepareStream(
	ctx context.Context, wanted jetstream.StreamConfig, interested func(ctx context.Context) ([]Consumer, error),
) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	stream, err := c.existing(ctx, wanted.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = c.createStream(ctx, wanted)
	case err == nil && !slices.Equal(stream.CachedInfo().Config.Subjects, []string{closedSubject(wanted.Name)}):
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

// createStream makes a stream that takes nothing yet.
func (c *Conn) createStream(ctx context.Context, wanted jetstream.StreamConfig) (jetstream.Stream, error) {
	began := time.Now()
	if c.deletions.unfinishedOf(wanted.Name) {
		return nil, ErrBeingDeleted
	}
	wanted.Subjects = []string{closedSubject(wanted.Name)}
	stream, err := c.js.CreateStream(ctx, wanted)
	if err != nil && wanted.MaxConsumers > 0 && errors.Is(mapError(err), ErrTooManyConsumers) {
		wanted.MaxConsumers = -1 // the account's limit holds
		stream, err = c.js.CreateStream(ctx, wanted)
	}
	if err != nil {
		return nil, insufficientResourcesError(wanted, mapError(err))
	}
	if stream.CachedInfo().State.LastSeq > 0 { // no client can have published to it: the files are those of the deleted one
		return nil, c.withdraw(ctx, wanted.Name)
	}
	c.deletions.recordCreation(wanted.Name, streamCreation{began: began, created: stream.CachedInfo().Created})
	c.log.Info("created stream", "stream", wanted.Name)
	return stream, nil
}

// existing is the stream of a name, unless its files are about to go.
func (c *Conn) existing(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := c.js.Stream(ctx, name)
	if err == nil && c.deletions.createdTooEarly(name, stream.CachedInfo().Created) {
		err = c.withdraw(ctx, name)
	}
	return stream, err
}

// withdraw deletes a stream of ours that was made too early.
func (c *Conn) withdraw(ctx context.Context, name string) error {
	c.log.Info("made a stream while the server was still deleting one of its name, recreating it", "stream", name)
	return errors.Join(ErrBeingDeleted, mapError(c.js.DeleteStream(ctx, name)))
}
