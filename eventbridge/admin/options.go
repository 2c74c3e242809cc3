package admin

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

// Options of the API.
type Options struct {
	Address string // host:port to listen on; empty: there is no API
}

// DefaultOptions have the API switched off.
func DefaultOptions() Options { return Options{} }

// BindFlags adds the flags; what o holds is their default.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Address, "admin-address", o.Address, "address of the API for dead letters and events, for example :9091; empty: none")
}

// Validate names every option that cannot work.
func (o *Options) Validate() error {
	if o.Address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return fmt.Errorf("--admin-address %q: %w", o.Address, err)
	}
	return nil
}
