package broker

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// Options are where NATS is and how we authenticate there.
type Options struct {
	// URL is one server or several, separated by commas.
	URL string
	// Name is what the server's connection list shows for this process.
	Name string
	// At most one of CredsFile, NKeyFile, TokenFile and PasswordFile authenticates
	// us; the URL may do so instead. They are read at each connect.

	// CredsFile holds a user's JWT and key.
	CredsFile string
	// NKeyFile holds a user's seed.
	NKeyFile string
	// TokenFile holds a token.
	TokenFile string
	// User and PasswordFile belong together.
	User         string
	PasswordFile string
	// CAFile holds the roots that the server's certificate is checked with.
	CAFile string
	// CertFile and KeyFile are the client certificate; both or none.
	CertFile string
	KeyFile  string
}

// DefaultOptions is a connection to the NATS that the chart installs.
func DefaultOptions() Options {
	return Options{URL: "nats://rouse-nats.rouse-system.svc.cluster.local:4222", Name: "rouse"}
}

// BindFlags adds the flags; what o holds is their default.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.URL, "nats-url", o.URL, "NATS server, or several separated by commas")
	fs.StringVar(&o.CredsFile, "nats-creds", o.CredsFile, "file with NATS credentials: a user's JWT and key")
	fs.StringVar(&o.NKeyFile, "nats-nkey", o.NKeyFile, "file with the seed of a user's nkey for NATS")
	fs.StringVar(&o.TokenFile, "nats-token-file", o.TokenFile, "file with a token for NATS")
	fs.StringVar(&o.User, "nats-user", o.User, "user of NATS, with --nats-password-file")
	fs.StringVar(&o.PasswordFile, "nats-password-file", o.PasswordFile, "file with that user's password")
	fs.StringVar(&o.CAFile, "nats-ca", o.CAFile, "file with the CA certificates for NATS")
	fs.StringVar(&o.CertFile, "nats-cert", o.CertFile, "file with the client certificate for NATS")
	fs.StringVar(&o.KeyFile, "nats-key", o.KeyFile, "file with the client certificate's key")
}

// Validate reports everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	for server := range strings.SplitSeq(o.URL, ",") {
		errs = append(errs, validateURL(strings.TrimSpace(server)))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--nats-cert and --nats-key need each other"))
	}
	if (o.User == "") != (o.PasswordFile == "") {
		errs = append(errs, errors.New("--nats-user and --nats-password-file need each other"))
	}
	if logins := o.logins(); len(logins) > 1 {
		errs = append(errs, fmt.Errorf("%s: use one of them", strings.Join(logins, ", ")))
	}
	return errors.Join(errs...)
}

// logins names the ways in which the options authenticate us. A client certificate
// may stand beside any of them.
func (o *Options) logins() []string {
	var found []string
	for _, login := range []struct{ flag, value string }{
		{"--nats-creds", o.CredsFile},
		{"--nats-nkey", o.NKeyFile},
		{"--nats-token-file", o.TokenFile},
		{"--nats-password-file", o.PasswordFile},
	} {
		if login.value != "" {
			found = append(found, login.flag)
		}
	}
	for server := range strings.SplitSeq(o.URL, ",") {
		if parsed, err := url.Parse(strings.TrimSpace(server)); err == nil && parsed.User != nil {
			return append(found, "user in --nats-url")
		}
	}
	return found
}

func validateURL(server string) error {
	if server == "" {
		return errors.New("--nats-url must not be empty")
	}
	parsed, err := url.Parse(server)
	if err != nil {
		// The parser's text quotes the URL, which may hold a password.
		return errors.New("--nats-url is not a URL")
	}
	switch parsed.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fmt.Errorf("--nats-url has the scheme %q, it must be nats, tls, ws or wss", parsed.Scheme)
	}
	if parsed.Hostname() == "" {
		return errors.New("--nats-url has no host")
	}
	return nil
}
