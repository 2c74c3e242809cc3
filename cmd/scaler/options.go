package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/scaler"
)

type options struct {
	scaler         scaler.Options
	broker         broker.Options
	metricsAddress string
	settings       settingswatch.Options
}

func defaultOptions() *options {
	o := &options{scaler: scaler.DefaultOptions(), broker: broker.DefaultOptions(), metricsAddress: ":9090"}
	o.broker.Name = "rouse-scaler"
	return o
}

// BindFlags adds all flags of the command.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "address of /metrics, /healthz and /readyz")
	o.scaler.BindFlags(fs)
	o.broker.BindFlags(fs)
	o.settings.BindFlags(fs)
}

// Validate reports everything that is wrong.
func (o *options) Validate() error {
	return errors.Join(o.scaler.Validate(), o.broker.Validate(), o.settings.Validate())
}
