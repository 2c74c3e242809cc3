package sink

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// Options bound how sinks are called.
type Options struct {
	Timeout       time.Duration // one delivery, from connect to the end of the answer
	DialTimeout   time.Duration // one connect of a delivery
	ProbeInterval time.Duration // between connects to an address that is not up yet
}

// DefaultOptions leaves a handler three minutes.
func DefaultOptions() Options {
	return Options{
		Timeout:       190 * time.Second,
		DialTimeout:   2 * time.Second,
		ProbeInterval: 25 * time.Millisecond,
	}
}

// BindFlags adds the --sink-* flags.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Timeout, "sink-timeout", o.Timeout, "how long a sink may take to answer")
	fs.DurationVar(&o.DialTimeout, "sink-dial-timeout", o.DialTimeout, "how long connecting to a sink may take")
	fs.DurationVar(&o.ProbeInterval, "sink-probe-interval", o.ProbeInterval,
		"how often a starting Function is dialled until it accepts a connection")
}

// Validate names every bound that cannot work.
func (o *Options) Validate() error {
	var errs []error
	if o.Timeout <= 0 {
		errs = append(errs, errors.New("--sink-timeout must be positive"))
	}
	if o.DialTimeout <= 0 {
		errs = append(errs, errors.New("--sink-dial-timeout must be positive"))
	}
	if o.ProbeInterval < time.Millisecond {
		errs = append(errs, errors.New("--sink-probe-interval must be at least 1ms"))
	}
	return errors.Join(errs...)
}
