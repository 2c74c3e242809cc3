package ingress

import (
	"errors"

	"github.com/spf13/pflag"
)

// Options bound what publishers may send.
type Options struct {
	MaxRequestSize     int64 // bytes of an event as it is sent: of a request's body, or of its part in a batch
	MaxBatchSize       int64 // bytes of a batch, which may also be as large as one event
	MaxBatchEvents     int   // events of a batch
	MaxBytesInFlight   int64 // bytes of all requests that are being stored
	MaxPending         int   // events that wait to be stored, which has no flag here: it is the store's
	MaxConnections     int   // publishers' connections, for the server of the handler
	MaxEventTypeSeries int   // types and sources that have series of their own
}

// DefaultOptions takes events up to 64 KiB, in batches up to 1 MiB.
func DefaultOptions() Options {
	return Options{
		MaxRequestSize:     64 << 10,
		MaxBatchSize:       1 << 20,
		MaxBatchEvents:     256,
		MaxBytesInFlight:   64 << 20,
		MaxPending:         1024,
		MaxConnections:     2048,
		MaxEventTypeSeries: 500,
	}
}

// BindFlags adds the flags; what o holds is their default.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.Int64Var(&o.MaxRequestSize, "max-request-size", o.MaxRequestSize,
		"largest event in bytes, as it is sent; NATS has to take it too (max_payload)")
	fs.Int64Var(&o.MaxBatchSize, "max-batch-size", o.MaxBatchSize, "largest batch of events in bytes")
	fs.IntVar(&o.MaxBatchEvents, "max-batch-events", o.MaxBatchEvents, "most events of a batch, and not more than --publish-max-pending")
	fs.Int64Var(&o.MaxBytesInFlight, "publish-max-bytes", o.MaxBytesInFlight,
		"bytes of events that may wait to be stored at a time; further requests get 429")
	fs.IntVar(&o.MaxConnections, "publish-max-connections", o.MaxConnections,
		"connections of publishers at a time; for a further one those are closed that have waited longest for their publisher")
	fs.IntVar(&o.MaxEventTypeSeries, "event-type-series", o.MaxEventTypeSeries,
		"how many pairs of type and source are counted by name in the metrics; the others are one")
}

// Validate reports everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.MaxRequestSize < 1 {
		errs = append(errs, errors.New("--max-request-size must be at least 1"))
	}
	if o.MaxBatchSize < 1 {
		errs = append(errs, errors.New("--max-batch-size must be at least 1"))
	}
	if o.MaxBatchEvents < 1 {
		errs = append(errs, errors.New("--max-batch-events must be at least 1"))
	}
	if o.MaxBytesInFlight < o.largestBody() {
		errs = append(errs, errors.New("--publish-max-bytes must be at least --max-request-size and --max-batch-size"))
	}
	if o.MaxConnections < 1 {
		errs = append(errs, errors.New("--publish-max-connections must be at least 1"))
	}
	if o.MaxEventTypeSeries < 0 {
		errs = append(errs, errors.New("--event-type-series must not be negative"))
	}
	return errors.Join(errs...)
}

// largestBody is how large a batch may be: at least as large as one event, so that no event fits alone only.
func (o *Options) largestBody() int64 { return max(o.MaxBatchSize, o.MaxRequestSize) }
