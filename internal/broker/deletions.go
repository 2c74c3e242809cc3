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
	// deletionTime is how long the server is believed to work on a deletion after it last told of it.
	deletionTime = 500 * time.Millisecond
	// confirmAfter is when a consumer that was made again shows whether that was late enough.
	confirmAfter = 15 * time.Second
	// deletionMemory is how long a deletion is remembered.
	deletionMemory = time.Minute
	// maxDeletions bounds what is remembered. Further deletions are taken to be finished.
	maxDeletions = 10_000
	// metadataMadeAgain is on a consumer that was made after somebody had deleted it, until that is confirmed.
	metadataMadeAgain = "rouse.run/made-again"
)

// deletions are those that somebody else has asked for. The server tells of a deletion, and forgets the name, before it removes
// the files: who makes the same again in between loses the new files with the old ones. Such a consumer works until the
// server is restarted, and is gone then. Such a stream confirms nothing.
type deletions struct {
	mu    sync.Mutex
	heard map[deleted]time.Time
	own   map[deleted]time.Time
	made  map[string]making
}

// making is that of a stream of ours.
type making struct {
	began   time.Time
	created time.Time // by the server
}

// deleted is a consumer of a stream, or the stream if the consumer is empty.
type deleted struct{ stream, consumer string }

func newDeletions() *deletions {
	return &deletions{heard: map[deleted]time.Time{}, own: map[deleted]time.Time{}, made: map[string]making{}}
}

// hear is told by the server that a deletion has begun.
func (d *deletions) hear(what deleted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	forgetOld(d.heard)
	forgetOld(d.own)
	if _, own := d.own[what]; !own && len(d.heard) < maxDeletions {
		d.heard[what] = time.Now()
	}
}

// ask is called before we delete something ourselves: we know when that is finished.
func (d *deletions) ask(what deleted) {
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
	return time.Since(d.heard[deleted{stream, consumer}]) < deletionTime
}

// unfinishedOf is the same for a stream, whose consumers are deleted first.
func (d *deletions) unfinishedOf(stream string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, at := range d.heard {
		if what.stream == stream && time.Since(at) < deletionTime {
			return true
		}
	}
	return false
}

// lately reports whether somebody has deleted a consumer in the last while.
func (d *deletions) lately(stream, consumer string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, heard := d.heard[deleted{stream, consumer}]
	return heard
}

// remake is called when a stream was made. What was heard of the one before is over.
func (d *deletions) remake(stream string, m making) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made[stream] = m
	maps.DeleteFunc(d.heard, func(what deleted, at time.Time) bool { return what.stream == stream && at.Before(m.began) })
}

// overtook reports whether a stream that exists was made by us before we heard that the one before is being deleted.
func (d *deletions) overtook(stream string, created time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ours := d.made[stream]
	return ours && m.created.Equal(created) && d.heard[deleted{stream: stream}].After(m.began)
}

func forgetOld(times map[deleted]time.Time) {
	maps.DeleteFunc(times, func(_ deleted, at time.Time) bool { return time.Since(at) > deletionMemory })
}

// awaitDeletion has a stand-in keep the events of a consumer that somebody has deleted, until it can be made again.
func (c *Conn) awaitDeletion(ctx context.Context, stream string, consumer Consumer) error {
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return mapError(err)
	}
	info := handle.CachedInfo()
	if info.Config.Retention != jetstream.InterestPolicy { // it keeps what nobody is interested in
		return ErrBeingDeleted
	}
	standIn := consumer.standIn(consumer.Subjects, consumer.StartFrom.String(), info.State.LastSeq+1)
	if _, err := c.js.CreateConsumer(ctx, stream, standIn); err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return mapError(err)
	}
	return ErrBeingDeleted
}

// madeAgain marks a consumer that somebody has deleted lately.
func (c *Conn) madeAgain(stream string, consumer Consumer) Consumer {
	if !c.deletions.lately(stream, consumer.Name) {
		return consumer
	}
	consumer.Metadata = ownMetadata(consumer.Metadata)
	consumer.Metadata[metadataMadeAgain] = "true"
	return consumer
}

// unconfirmed reports whether a consumer has to show yet that its files are its own, and whether it is time for that.
func unconfirmed(info *jetstream.ConsumerInfo) (marked, due bool) {
	_, marked = info.Config.Metadata[metadataMadeAgain]
	return marked, marked && info.TimeStamp.Sub(info.Created) > confirmAfter
}

// confirm changes a consumer in place, which fails when its files are gone. Then it is made anew, and loses nothing.
func (c *Conn) confirm(ctx context.Context, stream string, consumer Consumer, current *jetstream.ConsumerInfo) error {
	_, err := c.js.UpdateConsumer(ctx, stream, consumer.apply(current.Config))
	err = mapError(err)
	if api, ok := errors.AsType[*APIError](err); !ok || api.Code < 500 {
		return err
	}
	c.log.Info("a consumer has no files, because the server was still deleting one of its name; it is made anew",
		"consumer", consumer.Name, "reason", err.Error())
	if stream == RetryStream { // it keeps what has no consumer, and no two may take the same
		err = errors.Join(c.deleteConsumer(ctx, stream, consumer.Name), c.createConsumer(ctx, stream, consumer))
	} else {
		err = c.restart(ctx, stream, consumer, current)
	}
	if err != nil {
		return fmt.Errorf("make it anew: %w", err)
	}
	return nil
}
