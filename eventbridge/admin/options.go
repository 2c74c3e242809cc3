package admin

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

// Options of the API.
type Options struct {
	Address   string // host:port to listen on; empty: there is no API
	TokenFile string // holds the bearer token
}

// DefaultOptions have the API switched off.
func DefaultOptions() Options { return Options{} }

// BindFlags adds the flags; what o holds is their default.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Address, "admin-address", o.Address, "address of the API for dead letters and events, for example :9091; empty: none")
	fs.StringVar(&o.TokenFile, "admin-token-file", o.TokenFile, "file with the bearer token that the API asks for")
}

// Validate names every option that cannot work.
func (o *Options) Validate() error {
	if o.Address == "" {
		return nil
	}
	var errs []error
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		errs = append(errs, fmt.Errorf("--admin-address %q: %w", o.Address, err))
	}
	if o.TokenFile == "" {
		errs = append(errs, errors.New("--admin-token-file must not be empty with --admin-address"))
	}
	return errors.Join(errs...)
}
