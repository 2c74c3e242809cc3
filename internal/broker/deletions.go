package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

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
