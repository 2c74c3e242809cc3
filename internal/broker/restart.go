package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

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

// StandbyName is the name of the standby consumer, which keeps the events of a consumer while that is recreated.
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
		c.log.Info("consumer starts elsewhere", "consumer", consumer.Name, "from", consumer.StartFrom.String())
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
