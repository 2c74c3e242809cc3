package quota

import (
	"errors"

	"github.com/spf13/pflag"
)

// Options say how much one namespace may keep.
type Options struct {
	Share float64 // of the bytes of the stream, and of the events that it takes of one type; 0 and 1 are no quota
}

// DefaultOptions leave half of the stream to everybody else.
func DefaultOptions() Options { return Options{Share: 0.5} }

// BindFlags adds --quota-share.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.Float64Var(&o.Share, "quota-share", o.Share,
		"share of the stream of events that the Subscriptions of one namespace may keep; what goes over it becomes dead letters; 0 or 1: all")
}

// Validate checks the share.
func (o *Options) Validate() error {
	if !(o.Share >= 0 && o.Share <= 1) { // NaN is neither
		return errors.New("--quota-share must be from 0 to 1")
	}
	return nil
}

func (o *Options) enabled() bool { return o.Share > 0 && o.Share < 1 }
