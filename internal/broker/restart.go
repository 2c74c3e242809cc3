package broker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	standInSuffix = "-stand-in"
	// standInLife is how long a stand-in keeps events when its restart is not gone on with.
	standInLife = 24 * time.Hour
)

// restart makes a consumer anew that has to start elsewhere, which JetStream cannot
// change in place. What the old one had not settled is delivered by the new one in any
// case. The stream drops what no consumer waits for, so a stand-in keeps the events in
// between; createConsumer goes on with a restart that was cut short.
func (c *Conn) restart(ctx context.Context, stream string, consumer Consumer, old *jetstream.ConsumerInfo) error {
	standIn := Consumer{
		Name:        consumer.Name + standInSuffix,
		Description: "keeps the events of " + consumer.Name + " while it is made anew",
		Subjects:    subjects(old.Config),
		StartFrom:   StartFrom{Policy: StartSequence, Sequence: old.AckFloor.Stream + 1},
	}.config()
	standIn.InactiveThreshold = standInLife
	if _, err := c.js.CreateConsumer(ctx, stream, standIn); err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return mapError(err)
	}
	if err := c.DeleteConsumer(ctx, stream, consumer.Name); err != nil {
		return err
	}
	return c.createConsumer(ctx, stream, consumer)
}

// createConsumer makes a consumer, and takes over from a stand-in if there is one.
func (c *Conn) createConsumer(ctx context.Context, stream string, consumer Consumer) error {
	standIn, err := c.js.Consumer(ctx, stream, consumer.Name+standInSuffix)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return mapError(err)
	}
	created, err := c.js.CreateConsumer(ctx, stream, consumer.config())
	if err != nil || standIn == nil {
		return mapError(err)
	}
	unsettled := standIn.CachedInfo().Config.OptStartSeq
	if created.CachedInfo().Delivered.Stream >= unsettled { // it would leave out what was not settled
		config := consumer.config()
		config.DeliverPolicy, config.OptStartTime, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, unsettled
		if err := c.DeleteConsumer(ctx, stream, consumer.Name); err != nil {
			return err
		}
		if _, err := c.js.CreateConsumer(ctx, stream, config); err != nil {
			return mapError(err)
		}
	}
	c.log.Info("consumer starts elsewhere", "consumer", consumer.Name, "from", consumer.StartFrom.String())
	return c.DeleteConsumer(ctx, stream, consumer.Name+standInSuffix)
}
