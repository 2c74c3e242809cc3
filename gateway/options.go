package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/entrance"
)

// Options configures a Gateway.
type Options struct {
	// Host is the address of the activator ports; empty: all addresses of the pod.
	Host string
	// LoadAddress serves the load to the scaler and liveness to the controller.
	LoadAddress string
	// MetricsAddress serves metrics and probes.
	MetricsAddress string
	// MaxConnections bounds callers' connections, of which the slowest are closed for further ones. A caller, and the
	// Functions of a namespace, take at most as many as they leave free. Clients from outside may have half as many in
	// addition.
	MaxConnections int
	// ConnectionsPerFunction bounds the connections of one Function.
	ConnectionsPerFunction int
	// Addresses are the addresses under which listings lead here.
	Addresses []string
	// ListedTimeout bounds how long the gateway serves after the signal to stop while a listing leads here.
	ListedTimeout time.Duration
	// DrainDelay is how long the gateway serves after that: callers may still arrive for so long.
	DrainDelay time.Duration
	// DrainTimeout bounds how long requests may take after that.
	DrainTimeout time.Duration
	// Activator bounds requests that wait for a pod.
	Activator activator.Options
	// Entrance accepts the requests to the hosts of APIRules. Its bounds follow from those above.
	Entrance entrance.Options
	// APIRules bounds the requests to APIRules.
	APIRules apirules.Options
}

// DefaultOptions returns the defaults in a cluster.
func DefaultOptions() Options {
	return Options{
		LoadAddress:            ":9091",
		MetricsAddress:         ":9090",
		MaxConnections:         8192,
		ConnectionsPerFunction: 2048,
		ListedTimeout:          30 * time.Second,
		DrainDelay:             15 * time.Second,
		DrainTimeout:           3 * time.Minute,
		Activator:              activator.DefaultOptions(),
		Entrance:               entrance.DefaultOptions(),
		APIRules:               apirules.DefaultOptions(),
	}
}

// BindFlags adds the options to fs with their current values as defaults.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Host, "host", o.Host, "address at which the ports of activators are opened; empty: all")
	fs.StringVar(&o.LoadAddress, "load-address", o.LoadAddress, "address at which the scaler reads the load")
	fs.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "address of metrics and probes")
	fs.IntVar(&o.MaxConnections, "max-connections", o.MaxConnections, "maximum connections of callers; a further one closes the slowest. From outside half as many in addition")
	fs.IntVar(&o.ConnectionsPerFunction, "connections-per-function", o.ConnectionsPerFunction, "maximum connections to one Function")
	fs.DurationVar(&o.ListedTimeout, "listed-timeout", o.ListedTimeout, "longest time to serve after the signal to stop while the gateway is listed as an activator")
	fs.DurationVar(&o.DrainDelay, "drain-delay", o.DrainDelay, "how long to serve after that")
	fs.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "how long requests may take after that")
	o.Activator.BindFlags(fs)
	o.Entrance.BindFlags(fs)
}

// Validate reports every invalid option.
func (o *Options) Validate() error {
	var problems []error
	for flag, address := range map[string]string{"load-address": o.LoadAddress, "metrics-address": o.MetricsAddress} {
		if address == "" {
			problems = append(problems, fmt.Errorf("--%s must not be empty", flag))
		}
	}
	for flag, count := range map[string]int{"max-connections": o.MaxConnections, "connections-per-function": o.ConnectionsPerFunction} {
		if count < 1 {
			problems = append(problems, fmt.Errorf("--%s must be at least 1, is %d", flag, count))
		}
	}
	for flag, delay := range map[string]time.Duration{"listed-timeout": o.ListedTimeout, "drain-delay": o.DrainDelay} {
		if delay < 0 {
			problems = append(problems, fmt.Errorf("--%s must not be negative, is %s", flag, delay))
		}
	}
	if o.DrainTimeout <= 0 {
		problems = append(problems, fmt.Errorf("--drain-timeout must be more than 0, is %s", o.DrainTimeout))
	}
	return errors.Join(append(problems, o.Activator.Validate(), o.Entrance.Validate())...)
}
