package entrance

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rouse-run/rouse/internal/flags"
)

// Options configures an Entrance.
type Options struct {
	// HTTPAddress is the address of the HTTP listener; empty: none.
	HTTPAddress string
	// TLSAddress is the address of the HTTPS listener; empty: none.
	TLSAddress string
	// TLSDir has a folder for each certificate, with tls.crt and tls.key. The first by name is the default certificate.
	TLSDir string
	// TrustedProxies are the networks whose forwarding headers are trusted.
	TrustedProxies []netip.Prefix

	// The following options have no flags.

	// MaxConnections bounds concurrent clients, and concurrent requests.
	MaxConnections int
	// BodyTimeout bounds how long a client may send nothing of a body, and ReadTimeout how long it may read nothing of
	// a response.
	BodyTimeout, ReadTimeout time.Duration
	// DrainTimeout bounds how long requests may take after ctx ended.
	DrainTimeout time.Duration
	// Reload is the interval in which TLSDir is read.
	Reload time.Duration
}

// DefaultOptions returns the defaults in a cluster.
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

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.HTTPAddress, "http-address", "address of HTTP for the hosts of APIRules; empty: none")
	fs.String(&o.TLSAddress, "tls-address", "address of HTTPS for the hosts of APIRules; empty: none")
	fs.Require(o.HTTPAddress != "" || o.TLSAddress != "", "--http-address and --tls-address are empty: set one of them")
	fs.String(&o.TLSDir, "tls-dir", "folder with a folder for each certificate, which has tls.crt and tls.key; the first is the default")
	fs.Require(o.TLSAddress == "" || o.TLSDir != "", "--tls-dir must not be empty with --tls-address")
	fs.Var(&networks{&o.TrustedProxies}, "trusted-proxies", "networks whose X-Forwarded-For and X-Forwarded-Proto count, such as 10.0.0.0/8")
}

// networks is a flag that may be repeated, with several values separated by commas.
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
