package ingress

import (
	"errors"

	"github.com/spf13/pflag"
)

// Options bound what publishers may send.
type Options struct {
	MaxRequestSize int64 // bytes of a request's body
}

// DefaultOptions takes events up to 64 KiB.
func DefaultOptions() Options { return Options{MaxRequestSize: 64 << 10} }

// BindFlags adds --max-request-size.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.Int64Var(&o.MaxRequestSize, "max-request-size", o.MaxRequestSize, "largest body of a publish request in bytes")
}

// Validate checks the limit.
func (o *Options) Validate() error {
	if o.MaxRequestSize < 1 {
		return errors.New("--max-request-size must be at least 1")
	}
	return nil
}
