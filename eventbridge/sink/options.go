package sink

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Ways to reach a Service.
const (
	// EndpointsPods sends to the pods themselves.
	EndpointsPods = "pods"
	// EndpointsService sends to the Service and leaves the choice to the network, as a mesh wants it.
	EndpointsService = "service"
)

// maxReplySize is what NATS takes at most.
const maxReplySize = 64 << 20

// Options bound how sinks are called.
type Options struct {
	Timeout       time.Duration // one delivery, from connect to the end of the answer
	DialTimeout   time.Duration // one connect of a delivery
	ProbeInterval time.Duration // between connects to an address that is not up yet
	Endpoints     string        // EndpointsPods or EndpointsService
	CAFile        string        // certificates that are trusted beside the system's; empty for none
	MaxReplySize  int64         // bytes of an event that a sink may answer with
}

// DefaultOptions leaves a handler three minutes.
func DefaultOptions() Options {
	return Options{
		Timeout:       190 * time.Second,
		DialTimeout:   2 * time.Second,
		ProbeInterval: 25 * time.Millisecond,
		Endpoints:     EndpointsPods,
		MaxReplySize:  1 << 20,
	}
}

// BindFlags adds the --sink-* flags and --max-reply-size.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Timeout, "sink-timeout", o.Timeout, "how long a sink may take to answer")
	fs.DurationVar(&o.DialTimeout, "sink-dial-timeout", o.DialTimeout, "how long connecting to a sink may take")
	fs.DurationVar(&o.ProbeInterval, "sink-probe-interval", o.ProbeInterval,
		"how often a starting Function is dialled until it accepts a connection")
	fs.StringVar(&o.Endpoints, "sink-endpoints", o.Endpoints,
		"where events are sent: pods (straight to the least loaded), or service (to the Service's own address, for a mesh)")
	fs.StringVar(&o.CAFile, "sink-ca", o.CAFile, "file with certificates that sinks are trusted by, beside the system's")
	fs.Int64Var(&o.MaxReplySize, "max-reply-size", o.MaxReplySize, "largest event in bytes that a sink may answer with")
}

// Validate names every bound that cannot work.
func (o *Options) Validate() error {
	_, errCA := trusted(o.CAFile)
	errs := []error{errCA}
	if o.Timeout <= 0 {
		errs = append(errs, errors.New("--sink-timeout must be positive"))
	}
	if o.DialTimeout <= 0 {
		errs = append(errs, errors.New("--sink-dial-timeout must be positive"))
	}
	if o.ProbeInterval < time.Millisecond {
		errs = append(errs, errors.New("--sink-probe-interval must be at least 1ms"))
	}
	if o.Endpoints != EndpointsPods && o.Endpoints != EndpointsService {
		errs = append(errs, fmt.Errorf("--sink-endpoints must be %s or %s", EndpointsPods, EndpointsService))
	}
	if o.MaxReplySize < 1 || o.MaxReplySize > maxReplySize {
		errs = append(errs, fmt.Errorf("--max-reply-size must be between 1 and %d", maxReplySize))
	}
	return errors.Join(errs...)
}
