package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/eventbridge/replica"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
)

type options struct {
	bridge   replica.Options
	broker   broker.Options
	settings settingswatch.Options
}

func defaultOptions() *options {
	o := &options{bridge: replica.DefaultOptions(), broker: broker.DefaultOptions()}
	o.broker.Name = "rouse-eventbridge"
	return o
}

// BindFlags adds all flags of the command.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	o.bridge.BindFlags(fs)
	o.broker.BindFlags(fs)
	o.settings.BindFlags(fs)
}

// Validate reports everything that is wrong.
func (o *options) Validate() error {
	return errors.Join(o.bridge.Validate(), o.broker.Validate(), o.settings.Validate())
}
