package subscription

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// Options are the settings of the Subscription controller.
type Options struct {
	// Stream is where the events are kept.
	Stream broker.StreamOptions
	// Sinks is where events may go besides the Subscription's own namespace.
	Sinks routing.Policy
	// AllowEventingManager uses the stream although Kyma's eventing-manager does too.
	AllowEventingManager bool
	// MaxConcurrentReconciles bounds the Subscriptions that are worked on at a time.
	MaxConcurrentReconciles int
}

// DefaultOptions are the settings of an installation that sets none.
func DefaultOptions() Options {
	return Options{Stream: broker.DefaultStreamOptions(), MaxConcurrentReconciles: 4}
}

// BindFlags lets command-line flags change the settings.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	o.Stream.BindFlags(fs)
	o.Sinks.BindFlags(fs)
	fs.BoolVar(&o.AllowEventingManager, "allow-eventing-manager", o.AllowEventingManager,
		"use a stream in which Kyma's eventing-manager has consumers, although it deletes ours whenever it starts")
	fs.IntVar(&o.MaxConcurrentReconciles, "subscription-concurrent-reconciles", o.MaxConcurrentReconciles,
		"how many Subscriptions are worked on at a time")
}

// Validate finds everything that is wrong with the settings.
func (o *Options) Validate() error {
	var concurrency error
	if o.MaxConcurrentReconciles < 1 {
		concurrency = fmt.Errorf("--subscription-concurrent-reconciles %d: must be at least 1", o.MaxConcurrentReconciles)
	}
	return errors.Join(o.Stream.Validate(), o.Sinks.Validate(), concurrency)
}
