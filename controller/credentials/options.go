package credentials

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// Options say which Secrets an installation needs.
type Options struct {
	Release   string // what the names of its objects begin with
	Namespace string
	// NATSUsers are the users of the chart's own NATS; none: it has none, or is not there.
	NATSUsers []string
	// RegistryPush and RegistryPull are the addresses of the chart's own registry for builds and for nodes; empty: there is none.
	RegistryPush, RegistryPull string
	// KEDANamespace is where KEDA looks for its certificate; empty: the scaler has no TLS, or certificates of the user's.
	KEDANamespace string
	// Timeout is how long a namespace may take to be there.
	Timeout time.Duration
}

// BindFlags adds the flags of "controller credentials".
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Release, "release", o.Release, "what the names of the installation's objects begin with")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the installation")
	fs.StringSliceVar(&o.NATSUsers, "nats-users", o.NATSUsers, "users of the installation's own NATS that need passwords")
	fs.StringVar(&o.RegistryPush, "registry-push-address", o.RegistryPush, "by which builds push to the installation's own registry")
	fs.StringVar(&o.RegistryPull, "registry-pull-address", o.RegistryPull, "by which nodes pull from it")
	fs.StringVar(&o.KEDANamespace, "keda-namespace", o.KEDANamespace, "namespace of KEDA, if it and the scaler need certificates")
	fs.DurationVar(&o.Timeout, "timeout", 4*time.Minute, "how long to try again when something is missing or does not answer")
}

// Validate reports options that contradict each other.
func (o *Options) Validate() error {
	switch {
	case o.Release == "" || o.Namespace == "":
		return errors.New("--release and --namespace: both are needed")
	case (o.RegistryPush == "") != (o.RegistryPull == ""):
		return errors.New("--registry-push-address and --registry-pull-address belong together: set both or none")
	case o.Timeout <= 0:
		return errors.New("--timeout: must be more than 0")
	}
	return nil
}
