package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/internal/broker"
)

type options struct {
	bridge    eventbridge.Options
	broker    broker.Options
	publisher broker.PublisherOptions
}

func defaultOptions() *options {
	o := &options{
		bridge:    eventbridge.DefaultOptions(),
		broker:    broker.DefaultOptions(),
		publisher: broker.DefaultPublisherOptions(),
	}
	o.broker.Name = "rouse-eventbridge"
	return o
}

// BindFlags adds all flags of the command.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.publisher.Stream, "stream-name", o.publisher.Stream, "JetStream stream that holds the events")
	o.bridge.BindFlags(fs)
	o.publisher.BindFlags(fs)
	o.broker.BindFlags(fs)
}

// Validate reports everything that is wrong.
func (o *options) Validate() error {
	return errors.Join(o.bridge.Validate(), o.publisher.Validate(), o.broker.Validate())
}
