package broker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// DefaultStream is the stream that holds the events.
	DefaultStream = "sap"
	// DeadLetterStream is the stream that holds what could not be delivered.
	DeadLetterStream = "rouse-dead-letters"

	storageFile   = "file"
	storageMemory = "memory"

	maxStreamName = 32
)

// StreamOptions are the settings of the streams.
type StreamOptions struct {
	// Name of the stream that holds the events.
	Name string
	// Replicas of all streams: 1, 3 or 5 servers.
	Replicas int
	// Storage is "file" or "memory". It cannot be changed later.
	Storage string
	// MaxBytes that waiting events may take; more is refused, not dropped.
	MaxBytes int64
	// MaxMsgsPerSubject that may wait per event type; more is refused.
	MaxMsgsPerSubject int64
	// DuplicateWindow in which an event with the same source, id and type is stored once.
	DuplicateWindow time.Duration
	// DeadLetterMaxAge after which dead letters are deleted.
	DeadLetterMaxAge time.Duration
	// DeadLetterMaxBytes that dead letters may take; then the oldest are dropped of the
	// namespace that holds most. It is at least what one may need: the server's max_payload and 1 KiB.
	DeadLetterMaxBytes int64
	// RetryMaxBytes that events may take that wait for another attempt; more wait in
	// their consumers, where they hold up others.
	RetryMaxBytes int64
	// DelayedMaxBytes that events may take that are to be published later; more are refused.
	DelayedMaxBytes int64
}

// DefaultStreamOptions are Kyma's settings for the events.
func DefaultStreamOptions() StreamOptions {
	const (
		mebibyte          = 1 << 20
		maxMsgsPerSubject = 1_000_000
		week              = 7 * 24 * time.Hour
	)
	return StreamOptions{
		Name:               DefaultStream,
		Replicas:           1,
		Storage:            storageFile,
		MaxBytes:           700 * mebibyte,
		MaxMsgsPerSubject:  maxMsgsPerSubject,
		DuplicateWindow:    2 * time.Minute,
		DeadLetterMaxAge:   week,
		DeadLetterMaxBytes: 100 * mebibyte,
		RetryMaxBytes:      100 * mebibyte,
		DelayedMaxBytes:    64 * mebibyte,
	}
}

// Flags implements flags.Options.
func (o *StreamOptions) Flags(fs *flags.Set) {
	name := fs.String(&o.Name, "stream-name", "stream that holds the events")
	name.Must(o.Name != "" && len(o.Name) <= maxStreamName, fmt.Sprintf("have 1 to %d characters", maxStreamName))
	name.Must(!slices.Contains([]string{DeadLetterStream, RetryStream, ScheduleStream, DelayedStream, DoorStream}, o.Name), "not be the name of another stream")
	fs.Int(&o.Replicas, "stream-replicas", "NATS servers that keep a copy of the streams").Between(1, 5)
	fs.String(&o.Storage, "stream-storage", "where the streams are stored: file or memory").OneOf(storageFile, storageMemory)
	fs.Size(&o.MaxBytes, "stream-max-bytes", "bytes that waiting events may take, for example 700Mi").MoreThan(0)
	fs.Int64(&o.MaxMsgsPerSubject, "stream-max-msgs-per-subject", "events of one type that may wait").MoreThan(0)
	fs.Duration(&o.DuplicateWindow, "stream-duplicate-window",
		"time in which an event with the same source, id and type is stored once").MoreThan(0)
	fs.Duration(&o.DeadLetterMaxAge, "stream-dead-letter-max-age", "age at which dead letters are deleted").AtLeast(deadLetterWindow)
	fs.Size(&o.DeadLetterMaxBytes, "stream-dead-letter-max-bytes", "bytes that dead letters may take").MoreThan(0)
	fs.Size(&o.RetryMaxBytes, "stream-retry-max-bytes", "bytes that events may take that wait for another attempt").MoreThan(0)
	fs.Size(&o.DelayedMaxBytes, "stream-delayed-max-bytes", "bytes that events may take that are to be published later").MoreThan(0)
}

const (
	// deadLetterWindow is how long a repeated dead letter is recognised: longer
	// than any redelivery after a lost rejection takes.
	deadLetterWindow = 10 * time.Minute
	// maxConsumers of the streams of events and retries is more than there ever are. Without a limit of
	// its own a stream has the server's default, which is 1,000.
	maxConsumers = 1_000_000
	// deadLetterOverhead is the size of a dead letter in its stream in addition to its payload: its subject, and the server's record.
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
	schedules, delayed := ensure(scheduleStream(o), c.ensureStream), ensure(delayedStream(o), c.ensureStream)
	return errors.Join(deadLetters, retries, schedules, delayed, ensure(doorStream(o), c.ensureStream), ensure(c.eventStream(o), c.openStream))
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

// eventStream takes batches where they are of use. Older servers would not keep that setting.
func (c *Conn) eventStream(o StreamOptions) jetstream.StreamConfig {
	settings := eventStream(o)
	settings.AllowAtomicPublish = syncsBatchesOnce(c.nc.ConnectedServerVersion())
	return settings
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
	merged.AllowAtomicPublish = current.AllowAtomicPublish || wanted.AllowAtomicPublish
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

// closedSubject is what a stream takes that is not ready: no client publishes there.
func closedSubject(stream string) string { return "rouse.not-ready." + stream }

// EnsureStreamsFor is EnsureStreams, and has a stream of events that is new take no event before the consumers are in it:
// it would confirm and drop what they want. Those that NATS refuses are left to their own EnsureConsumer. Its storage is
// reserved before that of the other streams.
func (c *Conn) EnsureStreamsFor(ctx context.Context, o StreamOptions, interested func(ctx context.Context) ([]Consumer, error)) error {
	if err := c.prepareStream(ctx, c.eventStream(o), interested); err != nil {
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
	c.log.Info("created a stream while the server was still deleting its predecessor, recreating it", "stream", name)
	return errors.Join(ErrBeingDeleted, mapError(c.js.DeleteStream(ctx, name)))
}
