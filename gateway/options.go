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
	// Host is where the activator ports are opened; empty: all addresses of the pod.
	Host string
	// LoadAddress is where the scaler reads the load, and the controller whether the gateway lives.
	LoadAddress string
	// MetricsAddress is where metrics and probes are served.
	MetricsAddress string
	// MaxConnections is how many callers there may be at a time, of which the slowest are closed for further ones. A caller, and the
	// Functions of a namespace, take no more of them than they leave free. From outside there may be half as many beside them.
	MaxConnections int
	// ConnectionsPerFunction is how many of them one Function may have.
	ConnectionsPerFunction int
	// Addresses are those by which listings lead here.
	Addresses []string
	// ListedTimeout is how long everything goes on at most after the signal to stop while a listing leads here.
	ListedTimeout time.Duration
	// DrainDelay is how long everything goes on after that: for so long callers may still be led here.
	DrainDelay time.Duration
	// DrainTimeout is how long requests may take after that.
	DrainTimeout time.Duration
	// Activate bounds what waits.
	Activate activator.Options
	// Entrance is where the requests to the hosts of APIRules come in. Its bounds follow from those above.
	Entrance entrance.Options
	// Expose bounds what is served of them.
	Expose apirules.Options
}

// DefaultOptions are the values that a cluster runs with.
func DefaultOptions() Options {
	return Options{
		LoadAddress:            ":9091",
		MetricsAddress:         ":9090",
		MaxConnections:         8192,
		ConnectionsPerFunction: 2048,
		ListedTimeout:          30 * time.Second,
		DrainDelay:             15 * time.Second,
		DrainTimeout:           3 * time.Minute,
		Activate:               activator.DefaultOptions(),
		Entrance:               entrance.DefaultOptions(),
		Expose:                 apirules.DefaultOptions(),
	}
}

// BindFlags adds the options to fs, with their present values as defaults.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Host, "host", o.Host, "address at which the ports of activators are opened; empty: all")
	fs.StringVar(&o.LoadAddress, "load-address", o.LoadAddress, "address at which the scaler reads the load")
	fs.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "address of metrics and probes")
	fs.IntVar(&o.MaxConnections, "max-connections", o.MaxConnections, "callers at a time; for a further one the slowest is closed. From outside half as many")
	fs.IntVar(&o.ConnectionsPerFunction, "connections-per-function", o.ConnectionsPerFunction, "how many of them one Function may have")
	fs.DurationVar(&o.ListedTimeout, "listed-timeout", o.ListedTimeout, "how long to go on at most after the signal to stop while callers are led here")
	fs.DurationVar(&o.DrainDelay, "drain-delay", o.DrainDelay, "how long to go on after that")
	fs.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "how long requests may take after that")
	o.Activate.BindFlags(fs)
	o.Entrance.BindFlags(fs)
}

// Validate reports everything that is wrong.
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
	return errors.Join(append(problems, o.Activate.Validate(), o.Entrance.Validate())...)
}
