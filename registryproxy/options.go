package registryproxy

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Options say where the registry is and what an account may send.
type Options struct {
	// Upstream is the registry's address, which only the proxy reaches.
	Upstream string
	// BytesPerHour is what one tenant may push within an hour.
	BytesPerHour string
	// ImagesPerHour is how many manifests one tenant may push within an hour.
	ImagesPerHour int
	// Requests is how many of all tenants may run at a time, of which one has no more than it leaves free.
	Requests int
}

// DefaultOptions are those of the chart.
func DefaultOptions() Options {
	return Options{Upstream: "http://127.0.0.1:5001", BytesPerHour: "5Gi", ImagesPerHour: 1000, Requests: 256}
}

// BindFlags lets command-line flags change the options.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Upstream, "upstream", o.Upstream, "address of the registry")
	fs.StringVar(&o.BytesPerHour, "bytes-per-hour", o.BytesPerHour, "how much one namespace may push within an hour; each upload costs 64Ki besides, and each image 128Ki")
	fs.IntVar(&o.ImagesPerHour, "images-per-hour", o.ImagesPerHour, "how many images one namespace may push within an hour")
	fs.IntVar(&o.Requests, "max-requests", o.Requests, "how many requests of all namespaces may run at a time, of which one has no more than it leaves free")
}

// Validate finds everything that is wrong with the options.
func (o *Options) Validate() error {
	var problems []error
	if parsed, err := url.Parse(o.Upstream); err != nil || parsed.Host == "" {
		problems = append(problems, fmt.Errorf("--upstream %q: must be a URL such as http://127.0.0.1:5001", o.Upstream))
	}
	if size, err := resource.ParseQuantity(o.BytesPerHour); err != nil || size.Sign() <= 0 {
		problems = append(problems, fmt.Errorf("--bytes-per-hour %q: must be a size such as 5Gi", o.BytesPerHour))
	}
	if o.ImagesPerHour < 1 {
		problems = append(problems, fmt.Errorf("--images-per-hour %d: must be at least 1", o.ImagesPerHour))
	}
	if o.Requests < 1 {
		problems = append(problems, fmt.Errorf("--max-requests %d: must be at least 1", o.Requests))
	}
	return errors.Join(problems...)
}

// bytesPerHour is valid.
func (o *Options) bytesPerHour() int64 {
	size := resource.MustParse(o.BytesPerHour)
	return size.Value()
}
