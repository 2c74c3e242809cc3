package gateway

import (
	"time"

	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/entrance"
	"github.com/rouse-run/rouse/internal/flags"
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

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.Host, "host", "address at which the ports of activators are opened; empty: all")
	fs.String(&o.LoadAddress, "load-address", "address at which the scaler reads the load").NotEmpty()
	fs.String(&o.MetricsAddress, "metrics-address", "address of metrics and probes").NotEmpty()
	fs.Int(&o.MaxConnections, "max-connections",
		"maximum connections of callers; a further one closes the slowest. From outside half as many in addition").AtLeast(1)
	fs.Int(&o.ConnectionsPerFunction, "connections-per-function", "maximum connections to one Function").AtLeast(1)
	fs.Duration(&o.ListedTimeout, "listed-timeout",
		"longest time to serve after the signal to stop while the gateway is listed as an activator").AtLeast(0)
	fs.Duration(&o.DrainDelay, "drain-delay", "how long to serve after that").AtLeast(0)
	fs.Duration(&o.DrainTimeout, "drain-timeout", "how long requests may take after that").MoreThan(0)
	fs.Add(&o.Activator, &o.Entrance)
}
