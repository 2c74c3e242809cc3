package tracing

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"
)

// Options say where spans go.
type Options struct {
	Endpoint    string  // URL of an OTLP collector over HTTP; empty: there are no spans
	SampleRatio float64 // share of the traces begun here that are recorded; others are as their publisher decided
}

// DefaultOptions makes no spans, and would record all.
func DefaultOptions() Options { return Options{SampleRatio: 1} }

// BindFlags adds the --trace-* flags.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Endpoint, "trace-endpoint", o.Endpoint,
		"URL of the OTLP collector that spans are sent to over HTTP, like http://collector:4318/v1/traces; no spans when empty")
	fs.Float64Var(&o.SampleRatio, "trace-sample-ratio", o.SampleRatio,
		"share of the traces begun here that are recorded, from 0 to 1; for others their publisher decided")
}

// Validate names every option that cannot work.
func (o *Options) Validate() error {
	var errs []error
	if _, err := o.url(); err != nil {
		errs = append(errs, err)
	}
	if !(o.SampleRatio >= 0 && o.SampleRatio <= 1) { // NaN is refused too
		errs = append(errs, fmt.Errorf("--trace-sample-ratio must be from 0 to 1, not %v", o.SampleRatio))
	}
	return errors.Join(errs...)
}

// url has OTLP's own path when the endpoint has none. It is empty without an endpoint.
func (o *Options) url() (string, error) {
	if o.Endpoint == "" {
		return "", nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", errors.New("--trace-endpoint must be a URL of http or https")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}
