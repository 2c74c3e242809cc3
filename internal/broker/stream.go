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
	deadLetterPrefix = "rouse.deadletter"
	// deadLetterWindow is how long a repeated dead letter is recognised: longer
	// than any redelivery after a lost rejection takes.
	deadLetterWindow = 10 * time.Minute
)

// EnsureStreams creates the streams, or brings the settings of existing ones up to
// date in place. It never deletes a stream, and it leaves settings alone that it
// does not know.
func (c *Conn) EnsureStreams(ctx context.Context, o StreamOptions) error {
	for _, wanted := range []jetstream.StreamConfig{eventStream(o), deadLetterStream(o), retryStream(o)} {
		if err := c.ensureStream(ctx, wanted); err != nil {
			return fmt.Errorf("ensure stream %q: %w", wanted.Name, err)
		}
	}
	return c.EnsureConsumer(ctx, RetryStream, Consumer{
		Name:          retryConsumer,
		Description:   "brings retries back when they are due",
		Subjects:      []string{retryPrefix + ".>"},
		StartFrom:     StartFrom{Policy: StartAll},
		MaxAckPending: maxWaitingRetries,
	})
}

func eventStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              o.Name,
		Subjects:          []string{routing.SubjectPrefix + ".>"},
		Retention:         jetstream.InterestPolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           -1,
		MaxBytes:          o.MaxBytes,
		MaxMsgsPerSubject: o.MaxMsgsPerSubject,
		Duplicates:        o.DuplicateWindow,
		Discard:           jetstream.DiscardNew,
		// Without it the server drops the oldest event of a type that is full.
		DiscardNewPerSubject: true,
	}
}

func deadLetterStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              DeadLetterStream,
		Description:       "events that Rouse could not deliver",
		Subjects:          []string{deadLetterPrefix + ".>"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: -1,
		MaxBytes:          o.DeadLetterMaxBytes,
		MaxAge:            o.DeadLetterMaxAge,
		Duplicates:        deadLetterWindow,
		Discard:           jetstream.DiscardOld,
		// Letters are read without a consumer, from any replica.
		AllowDirect: true,
	}
}

func retryStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              RetryStream,
		Description:       "events that wait for another attempt",
		Subjects:          []string{retryPrefix + ".>"},
		Retention:         jetstream.WorkQueuePolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           -1,
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
	stream, err := c.js.Stream(ctx, wanted.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return c.createStream(ctx, wanted)
	}
	if err != nil {
		return mapError(err)
	}
	return c.updateStream(ctx, stream.CachedInfo().Config, wanted)
}

func (c *Conn) createStream(ctx context.Context, wanted jetstream.StreamConfig) error {
	if _, err := c.js.CreateStream(ctx, wanted); err != nil {
		return roomError(wanted, mapError(err))
	}
	c.log.Info("created stream", "stream", wanted.Name)
	return nil
}

func (c *Conn) updateStream(ctx context.Context, current, wanted jetstream.StreamConfig) error {
	if current.Storage != wanted.Storage {
		return fmt.Errorf("it is stored in %s and cannot be moved to %s: choose --stream-storage as it is",
			current.Storage, wanted.Storage)
	}
	merged := merge(current, wanted)
	if reflect.DeepEqual(current, merged) {
		return nil
	}
	if _, err := c.js.UpdateStream(ctx, merged); err != nil {
		return roomError(wanted, mapError(err))
	}
	c.log.Info("updated stream", "stream", wanted.Name)
	return nil
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

// roomError says what to change when the server cannot hold the stream.
func roomError(wanted jetstream.StreamConfig, err error) error {
	if !errors.Is(err, ErrNoRoom) {
		return err
	}
	return fmt.Errorf("it asks for %d bytes on %d server(s), lower the limit or give NATS more storage: %w",
		wanted.MaxBytes, wanted.Replicas, err)
}
