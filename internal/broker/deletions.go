package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamDeleted   = "$JS.EVENT.ADVISORY.STREAM.DELETED."
	consumerDeleted = "$JS.EVENT.ADVISORY.CONSUMER.DELETED."
)

// OnDeleted calls notify whenever any client has deleted one of the streams, then with an empty consumer, or a consumer of
// them, until stop. Calls may run at the same time. It goes on after a reconnect, but does not report what was deleted in
// between. Without the permission for advisories it receives nothing; the log has the error.
func (c *Conn) OnDeleted(streams []string, notify func(stream, consumer string)) (stop func(), err error) {
	var subscriptions []*nats.Subscription
	stop = func() {
		for _, subscription := range subscriptions {
			_ = subscription.Unsubscribe() // one that is gone with its connection is fine
		}
	}
	for _, stream := range streams {
		for subject, prefix := range map[string]string{
			streamDeleted + stream: "", consumerDeleted + stream + ".*": consumerDeleted + stream + ".",
		} {
			subscription, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
				consumer := ""
				if prefix != "" {
					consumer = strings.TrimPrefix(m.Subject, prefix)
				}
				c.deletions.observe(deleted{stream, consumer})
				notify(stream, consumer)
			})
			if err != nil {
				stop()
				return nil, fmt.Errorf("listen for what is deleted of stream %q: %w", stream, mapError(err))
			}
			subscriptions = append(subscriptions, subscription)
		}
	}
	return stop, nil
}

// IsInternalConsumer reports whether a consumer is not a Subscription's but one that EnsureStreams makes.
func IsInternalConsumer(consumer string) bool { return strings.HasPrefix(consumer, retryConsumer) }

const (
	// deletionTime is how long the server is assumed to work on a deletion after its last advisory about it.
	deletionTime = 500 * time.Millisecond
	// confirmAfter is the age at which a recreated consumer shows whether it has files of its own.
	confirmAfter = 15 * time.Second
	// deletionMemory is how long a deletion is remembered.
	deletionMemory = time.Minute
	// maxDeletions bounds what is remembered. Further deletions are taken to be finished.
	maxDeletions = 10_000
	// metadataRecreated marks a consumer that was recreated after another client had deleted it, until that is confirmed.
	metadataRecreated = "rouse.run/made-again"
)

// deletions are those that other clients have requested. The server sends the advisory, and frees the name, before it removes
// the files: what is recreated in between loses the new files with the old ones. Such a consumer works until the
// server is restarted, and is gone then. Such a stream confirms nothing.
type deletions struct {
	mu       sync.Mutex
	observed map[deleted]time.Time
	own      map[deleted]time.Time
	created  map[string]streamCreation
}

// streamCreation is when this process created a stream.
type streamCreation struct {
	began   time.Time
	created time.Time // by the server
}

// deleted is a consumer of a stream, or the stream if the consumer is empty.
type deleted struct{ stream, consumer string }

func newDeletions() *deletions {
	return &deletions{observed: map[deleted]time.Time{}, own: map[deleted]time.Time{}, created: map[string]streamCreation{}}
}

// observe records the server's advisory that a deletion has begun.
func (d *deletions) observe(what deleted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	forgetOld(d.observed)
	forgetOld(d.own)
	if _, own := d.own[what]; !own && len(d.observed) < maxDeletions {
		d.observed[what] = time.Now()
	}
}

// expect records what this process is about to delete itself: it knows when that is finished.
func (d *deletions) expect(what deleted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.own) < maxDeletions {
		d.own[what] = time.Now()
	}
}

// unfinished reports whether the server may still be deleting a consumer.
func (d *deletions) unfinished(stream, consumer string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.observed[deleted{stream, consumer}]) < deletionTime
}

// unfinishedOf is the same for a stream, whose consumers are deleted first.
func (d *deletions) unfinishedOf(stream string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, at := range d.observed {
		if what.stream == stream && time.Since(at) < deletionTime {
			return true
		}
	}
	return false
}

// recentlyDeleted reports whether another client has deleted a consumer within deletionMemory.
func (d *deletions) recentlyDeleted(stream, consumer string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, heard := d.observed[deleted{stream, consumer}]
	return heard
}

// recordCreation records that a stream was created, and forgets the advisories about the one before.
func (d *deletions) recordCreation(stream string, m streamCreation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.created[stream] = m
	maps.DeleteFunc(d.observed, func(what deleted, at time.Time) bool { return what.stream == stream && at.Before(m.began) })
}

// createdTooEarly reports whether this process created the existing stream before the advisory that the one before is being
// deleted.
func (d *deletions) createdTooEarly(stream string, created time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ours := d.created[stream]
	return ours && m.created.Equal(created) && d.observed[deleted{stream: stream}].After(m.began)
}

func forgetOld(times map[deleted]time.Time) {
	maps.DeleteFunc(times, func(_ deleted, at time.Time) bool { return time.Since(at) > deletionMemory })
}

// awaitDeletion has a standby consumer keep the events of a consumer that another client has deleted, until it can be recreated.
func (c *Conn) awaitDeletion(ctx context.Context, stream string, consumer Consumer) error {
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return mapError(err)
	}
	info := handle.CachedInfo()
	if info.Config.Retention != jetstream.InterestPolicy { // it keeps events without interest
		return ErrBeingDeleted
	}
	standby := consumer.standbyConfig(consumer.Subjects, consumer.StartFrom.String(), info.State.LastSeq+1)
	if _, err := c.js.CreateConsumer(ctx, stream, standby); err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return mapError(err)
	}
	return ErrBeingDeleted
}

// markRecreated marks a consumer that another client has deleted lately.
func (c *Conn) markRecreated(stream string, consumer Consumer) Consumer {
	if !c.deletions.recentlyDeleted(stream, consumer.Name) {
		return consumer
	}
	consumer.Metadata = ownMetadata(consumer.Metadata)
	consumer.Metadata[metadataRecreated] = "true"
	return consumer
}

// unconfirmed reports whether a consumer has to show yet that its files are its own, and whether it is time for that.
func unconfirmed(info *jetstream.ConsumerInfo) (marked, due bool) {
	_, marked = info.Config.Metadata[metadataRecreated]
	return marked, marked && info.TimeStamp.Sub(info.Created) > confirmAfter
}

// confirm changes a consumer in place, which fails when its files are gone. Then it recreates the consumer, which loses nothing.
func (c *Conn) confirm(ctx context.Context, stream string, consumer Consumer, current *jetstream.ConsumerInfo) error {
	_, err := c.js.UpdateConsumer(ctx, stream, consumer.apply(current.Config))
	err = mapError(err)
	if api, ok := errors.AsType[*APIError](err); !ok || api.Code < 500 {
		return err
	}
	c.log.Info("a consumer has no files, because the server was still deleting one of its name; recreating it",
		"consumer", consumer.Name, "reason", err.Error())
	if stream == RetryStream { // it keeps what has no consumer, and no two may take the same
		err = errors.Join(c.deleteConsumer(ctx, stream, consumer.Name), c.createConsumer(ctx, stream, consumer))
	} else {
		err = c.restart(ctx, stream, consumer, current)
	}
	if err != nil {
		return fmt.Errorf("recreate it: %w", err)
	}
	return nil
}

const (
	standbySuffix = "-stand-in"
	// standbyLifetime is how long a standby consumer keeps events if its restart is never continued.
	standbyLifetime = 24 * time.Hour
	// metadataStarted marks a standby, and holds where its consumer had been made to start.
	metadataStarted = "rouse.run/started-from"
)

// RenewConsumer recreates a consumer that does not deliver any more, from the oldest
// event that it has not settled. Events behind that one may be delivered a second time.
func (c *Conn) RenewConsumer(ctx context.Context, stream string, consumer Consumer) error {
	defer c.consumers.one(consumer.Name)()
	if !c.Connected() {
		return fmt.Errorf("renew consumer %q: %w", consumer.Name, ErrNotConnected)
	}
	existing, err := c.js.Consumer(ctx, stream, consumer.Name)
	if err == nil {
		err = c.restart(ctx, stream, consumer, existing.CachedInfo())
	}
	if err != nil {
		return fmt.Errorf("renew consumer %q: %w", consumer.Name, mapError(err))
	}
	return nil
}

// restart recreates a consumer, because it has to start elsewhere or to be what JetStream
// cannot change in place. What the old one had not settled is delivered by the new one in any
// case. The stream drops what no consumer waits for, so a standby keeps the events in
// between; createConsumer continues a restart that was interrupted.
func (c *Conn) restart(ctx context.Context, stream string, consumer Consumer, old *jetstream.ConsumerInfo) error {
	standby := consumer.standbyConfig(subjects(old.Config), old.Config.Metadata[metadataStart], old.AckFloor.Stream+1)
	if _, err := c.js.CreateConsumer(ctx, stream, standby); err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return mapError(err)
	}
	if err := c.deleteConsumer(ctx, stream, consumer.Name); err != nil {
		return err
	}
	return c.createConsumer(ctx, stream, consumer)
}

// StandbyName is the name of the standby consumer, which holds the events of a consumer while that is recreated.
func StandbyName(consumer string) string { return consumer + standbySuffix }

// standbyConfig is the standby, from a sequence on, of a consumer that had been made to start at started.
func (c Consumer) standbyConfig(subjects []string, started string, sequence uint64) jetstream.ConsumerConfig {
	config := Consumer{
		Name:        StandbyName(c.Name),
		Description: "keeps the events of " + c.Name + " while it is recreated",
		Subjects:    subjects,
		Metadata:    map[string]string{metadataStarted: started},
		StartFrom:   StartFrom{Policy: StartSequence, Sequence: sequence},
	}.config()
	config.InactiveThreshold = standbyLifetime
	return config
}

// createConsumer makes a consumer, and takes over from a standby if there is one.
func (c *Conn) createConsumer(ctx context.Context, stream string, consumer Consumer) error {
	standby, err := c.js.Consumer(ctx, stream, StandbyName(consumer.Name))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = c.js.CreateConsumer(ctx, stream, consumer.config())
		return mapError(err)
	}
	if err != nil {
		return mapError(err)
	}
	if err := c.takeOver(ctx, stream, consumer, standby.CachedInfo().Config); err != nil {
		return mapError(err)
	}
	return c.deleteConsumer(ctx, stream, StandbyName(consumer.Name))
}

// takeOver makes a consumer that delivers all that its standby keeps.
func (c *Conn) takeOver(ctx context.Context, stream string, consumer Consumer, standby jetstream.ConsumerConfig) error {
	config := consumer.config()
	if standby.Metadata[metadataStarted] != consumer.StartFrom.String() {
		created, err := c.js.CreateConsumer(ctx, stream, config)
		if err != nil {
			return err
		}
		c.log.Info("consumer restarts at another position", "consumer", consumer.Name, "from", consumer.StartFrom.String())
		if created.CachedInfo().Delivered.Stream < standby.OptStartSeq {
			return nil
		}
		if err := c.deleteConsumer(ctx, stream, consumer.Name); err != nil {
			return err
		}
	}
	config.DeliverPolicy, config.OptStartTime, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, standby.OptStartSeq
	_, err := c.js.CreateConsumer(ctx, stream, config)
	return err
}
