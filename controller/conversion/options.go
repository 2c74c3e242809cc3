package conversion

import (
	"errors"

	"github.com/spf13/pflag"
)

// Options are how the webhook is reached.
type Options struct {
	// Address is host:port; empty: there is no webhook.
	Address string
	// CertFile and KeyFile hold its certificate. They are read at each handshake, so that a renewed one needs no restart.
	CertFile, KeyFile string
}

// BindFlags adds the flags.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Address, "conversion-address", o.Address, "address of the webhook that converts Functions of v1alpha1; empty: none")
	fs.StringVar(&o.CertFile, "conversion-tls-cert", o.CertFile, "file with the certificate of --conversion-address")
	fs.StringVar(&o.KeyFile, "conversion-tls-key", o.KeyFile, "file with the key of that certificate")
}

// Enabled reports whether v1alpha1 is served.
func (o *Options) Enabled() bool { return o.Address != "" }

// Validate reports what is wrong.
func (o *Options) Validate() error {
	if o.Enabled() && (o.CertFile == "" || o.KeyFile == "") {
		return errors.New("--conversion-address needs --conversion-tls-cert and --conversion-tls-key")
	}
	return nil
}
