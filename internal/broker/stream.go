package broker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// deadLetterWindow is how long a repeated dead letter is recognised: longer
	// than any redelivery after a lost rejection takes.
	deadLetterWindow = 10 * time.Minute
	// maxConsumers of the streams of events and retries is more than there ever are. Without a limit of
	// its own a stream has the server's default, which is 1,000.
	maxConsumers = 1_000_000
	// deadLetterOverhead is what a dead letter takes in its stream beside its payload: its subject, and what the server adds.
	deadLetterOverhead = 1 << 10
)

// EnsureStreams creates the streams, or brings the settings of existing ones up to
// date in place. It never deletes a stream, and it leaves settings alone that it
// does not know.
func (c *Conn) EnsureStreams(ctx context.Context, o StreamOptions) error {
	return c.EnsureStreamsFor(ctx, o, func(context.Context) ([]Consumer, error) { return nil, nil })
}

// ensureStreams opens the stream of events last: what becomes of an event can be stored then. One of the other
// streams that is broken stops none.
func (c *Conn) ensureStreams(ctx context.Context, o StreamOptions) error {
	ensure := func(wanted jetstream.StreamConfig, ensureStream func(context.Context, jetstream.StreamConfig) error) error {
		if err := errors.Join(c.checkDeadLetterCapacity(wanted), ensureStream(ctx, wanted)); err != nil {
			return fmt.Errorf("ensure stream %q: %w", wanted.Name, err)
		}
		return nil
	}
	deadLetters, retries := ensure(deadLetterStream(o), c.ensureStream), ensure(retryStream(o), c.ensureStream)
	if retries == nil {
		retries = c.ensureRetryConsumers(ctx)
	}
	return errors.Join(deadLetters, retries, ensure(eventStream(o), c.openStream))
}

func eventStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              o.Name,
		Subjects:          []string{routing.SubjectPrefix + ".>"},
		Retention:         jetstream.InterestPolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           -1,
		MaxConsumers:      maxConsumers,
		MaxBytes:          o.MaxBytes,
		MaxMsgsPerSubject: o.MaxMsgsPerSubject,
		Duplicates:        o.DuplicateWindow,
		Discard:           jetstream.DiscardNew,
		// Without it the server drops the oldest event of a type that is full.
		DiscardNewPerSubject: true,
		// What waits is measured without a consumer.
		AllowDirect: true,
	}
}

func deadLetterStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              DeadLetterStream,
		Description:       "events that Rouse could not deliver",
		Subjects:          deadLetterSubjects(),
		Retention:         jetstream.LimitsPolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: -1,
		MaxBytes:          o.DeadLetterMaxBytes,
		MaxAge:            o.DeadLetterMaxAge,
		Duplicates:        deadLetterWindow,
		// Rouse chooses which dead letters are dropped: the server would drop the oldest of any namespace.
		Discard: jetstream.DiscardNew,
		// Dead letters are read without a consumer, from any replica.
		AllowDirect: true,
	}
}

// checkDeadLetterCapacity refuses a stream that could not hold one dead letter: its event would be tried again for ever.
func (c *Conn) checkDeadLetterCapacity(wanted jetstream.StreamConfig) error {
	largest := c.nc.MaxPayload() + deadLetterOverhead
	if wanted.Name != DeadLetterStream || !c.Connected() || wanted.MaxBytes >= largest {
		return nil
	}
	return fmt.Errorf("--stream-dead-letter-max-bytes (%d) is less than one dead letter may need, which is %d by the server's max_payload: "+
		"raise the one or lower the other", wanted.MaxBytes, largest)
}

func retryStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              RetryStream,
		Description:       "events that wait for another attempt, and copies of those whose calls are detached",
		Subjects:          []string{delayPrefix + ".>", callPrefix + ".>", oldRetryPrefix + ".>"},
		Retention:         jetstream.WorkQueuePolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           -1,
		MaxConsumers:      maxConsumers,
		MaxMsgsPerSubject: -1,
		MaxBytes:          o.RetryMaxBytes,
		Duplicates:        retryWindow,
		Discard:           jetstream.DiscardNew,
	}
}

func storageType(name string) jetstream.StorageType {
	if name == storageMemory {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

func (c *Conn) ensureStream(ctx context.Context, wanted jetstream.StreamConfig) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	stream, err := c.existing(ctx, wanted.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = c.createStream(ctx, wanted)
	}
	if err != nil {
		return mapError(err)
	}
	return c.updateStream(ctx, stream.CachedInfo().Config, wanted)
}

// openStream has a prepared stream take events. It creates none: it would have no consumers.
func (c *Conn) openStream(ctx context.Context, wanted jetstream.StreamConfig) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	stream, err := c.existing(ctx, wanted.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound): // it was there a moment ago
		return ErrBeingDeleted
	case err != nil:
		return mapError(err)
	}
	return c.updateStream(ctx, stream.CachedInfo().Config, wanted)
}

func (c *Conn) updateStream(ctx context.Context, current, wanted jetstream.StreamConfig) error {
	if current.Storage != wanted.Storage {
		return fmt.Errorf("it is stored in %s and cannot be moved to %s: choose --stream-storage as it is",
			current.Storage, wanted.Storage)
	}
	merged := merge(current, wanted)
	if !reflect.DeepEqual(current, merged) {
		if err := c.changeStream(ctx, merged); err != nil {
			return insufficientResourcesError(wanted, err)
		}
		c.log.Info("updated stream", "stream", wanted.Name)
	}
	return c.raiseMaxConsumers(ctx, merged, wanted)
}

// raiseMaxConsumers sets the limit of consumers of a stream that has none. A server that
// refuses that has a limit for the account, or is too old to change it and to have a default.
func (c *Conn) raiseMaxConsumers(ctx context.Context, current, wanted jetstream.StreamConfig) error {
	if wanted.MaxConsumers <= 0 || current.MaxConsumers > 0 {
		return nil
	}
	current.MaxConsumers = wanted.MaxConsumers
	err := c.changeStream(ctx, current)
	if refusesChange(err) {
		return nil
	}
	return err
}

// changeStream makes no consumer meanwhile: nats-server reads the stream's settings for it without a lock.
func (c *Conn) changeStream(ctx context.Context, settings jetstream.StreamConfig) error {
	defer c.consumers.none()()
	_, err := c.js.UpdateStream(ctx, settings)
	return mapError(err)
}

// refusesChange distinguishes a server that refuses a change of a stream from one that cannot make it now.
func refusesChange(err error) bool {
	api, ok := errors.AsType[*APIError](err)
	return ok && (api.Code < 500 ||
		api.ErrorCode == int(codeStreamConfig) || api.ErrorCode == int(codeStreamUpdate))
}

// merge puts our settings over those of the server.
func merge(current, wanted jetstream.StreamConfig) jetstream.StreamConfig {
	merged := current
	merged.Subjects = wanted.Subjects
	merged.Retention = wanted.Retention
	merged.Replicas = wanted.Replicas
	merged.MaxMsgs = wanted.MaxMsgs
	merged.MaxBytes = wanted.MaxBytes
	merged.MaxAge = wanted.MaxAge
	merged.MaxMsgsPerSubject = wanted.MaxMsgsPerSubject
	merged.Duplicates = wanted.Duplicates
	merged.Discard = wanted.Discard
	merged.DiscardNewPerSubject = wanted.DiscardNewPerSubject
	merged.AllowDirect = current.AllowDirect || wanted.AllowDirect
	if wanted.Description != "" {
		merged.Description = wanted.Description
	}
	return merged
}

// insufficientResourcesError adds what to change when the server cannot hold the stream.
func insufficientResourcesError(wanted jetstream.StreamConfig, err error) error {
	if !errors.Is(err, ErrInsufficientResources) {
		return err
	}
	return fmt.Errorf("it asks for %d bytes on %d server(s), lower the limit or give NATS more storage: %w",
		wanted.MaxBytes, wanted.Replicas, err)
}
