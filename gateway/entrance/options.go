package entrance

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Options configures an Entrance.
type Options struct {
	// HTTPAddress is where HTTP is spoken; empty: nowhere.
	HTTPAddress string
	// TLSAddress is where HTTPS is spoken; empty: nowhere.
	TLSAddress string
	// TLSDir has a folder for each certificate, with tls.crt and tls.key. The first in the order of their names is for clients that
	// ask for no other.
	TLSDir string
	// TrustedProxies are the networks whose word counts about where a request came from.
	TrustedProxies []netip.Prefix

	// No flag sets the following.

	// MaxConnections is how many clients there may be at a time, and how many requests.
	MaxConnections int
	// BodyTimeout is for how long a client may send nothing of a body, and ReadTimeout for how long it may read nothing of an answer.
	BodyTimeout, ReadTimeout time.Duration
	// DrainTimeout is how long requests may take after the end.
	DrainTimeout time.Duration
	// Reload is the pause between two looks at TLSDir.
	Reload time.Duration
}

// DefaultOptions are the values that a cluster runs with.
func DefaultOptions() Options {
	return Options{
		HTTPAddress:    ":8080",
		TLSDir:         "/tls",
		MaxConnections: 4096,
		BodyTimeout:    time.Minute,
		ReadTimeout:    15 * time.Second,
		DrainTimeout:   3 * time.Minute,
		Reload:         5 * time.Second,
	}
}

// BindFlags adds the options to fs, with their present values as defaults.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.HTTPAddress, "http-address", o.HTTPAddress, "address of HTTP for the hosts of APIRules; empty: none")
	fs.StringVar(&o.TLSAddress, "tls-address", o.TLSAddress, "address of HTTPS for them; empty: none")
	fs.StringVar(&o.TLSDir, "tls-dir", o.TLSDir, "folder with a folder for each certificate, which has tls.crt and tls.key; the first is the default")
	fs.Var(&networks{&o.TrustedProxies}, "trusted-proxies", "networks whose X-Forwarded-For and X-Forwarded-Proto count, such as 10.0.0.0/8")
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	var problems []error
	if o.HTTPAddress == "" && o.TLSAddress == "" {
		problems = append(problems, errors.New("--http-address and --tls-address are empty: set one of them"))
	}
	if o.TLSAddress != "" && o.TLSDir == "" {
		problems = append(problems, errors.New("--tls-dir must not be empty with --tls-address"))
	}
	if o.MaxConnections < 1 {
		problems = append(problems, fmt.Errorf("MaxConnections must be at least 1, is %d", o.MaxConnections))
	}
	return errors.Join(problems...)
}

// networks are a flag that may be repeated, and may have several separated by commas.
type networks struct{ to *[]netip.Prefix }

// Set implements pflag.Value.
func (n *networks) Set(text string) error {
	for each := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(each))
		if err != nil {
			return fmt.Errorf("%q is not a network such as 10.0.0.0/8", each)
		}
		*n.to = append(*n.to, prefix.Masked())
	}
	return nil
}

// Type implements pflag.Value.
func (n *networks) Type() string { return "networks" }

// String implements pflag.Value.
func (n *networks) String() string {
	if n.to == nil {
		return ""
	}
	texts := make([]string, len(*n.to))
	for i, prefix := range *n.to {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}
