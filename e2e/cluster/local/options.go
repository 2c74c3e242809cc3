package local

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Options are the user's options.
type Options struct {
	Repository   string
	Cache        state.Cache
	Dir          state.Dir
	EnvoyGateway bool // an implementation of Gateway API too
	KeepFailed   bool // leave a failed cluster for inspection
	Nodes        int
	// Registries maps the hosts of the cluster's registries to their URLs for containerd, which does not use the
	// cluster's DNS.
	Registries map[string]string
	// OwnCluster is the text about the requirements of a user's own cluster.
	OwnCluster   string
	Kubeconfig   string // of a user's own cluster; empty: the local cluster
	ControlPlane ControlPlane
}

// DefaultOptions returns the defaults and the options in the environment.
func DefaultOptions(getenv func(string) string) (Options, error) {
	options := Options{Dir: state.FromEnv(getenv), ControlPlane: defaultControlPlane(), Nodes: 1}
	var err error
	if text := getenv("NODES"); text != "" {
		if options.Nodes, err = strconv.Atoi(text); err != nil {
			return options, fmt.Errorf("NODES: %w", err)
		}
	}
	// The local cluster's kubeconfig, as printed by env, is not a user's own cluster.
	if own := getenv("KUBECONFIG"); own != options.Dir.Kubeconfig() {
		options.Kubeconfig = own
	}
	options.Cache, err = state.CacheFromEnv(getenv)
	return options, err
}

// Validate reports every invalid option.
func (o *Options) Validate() error {
	var problems []error
	if o.Nodes < 1 || o.Nodes > host.MaxMembers {
		problems = append(problems, fmt.Errorf("nodes can be 1 to %d, not %d", host.MaxMembers, o.Nodes))
	}
	if !strings.HasPrefix(string(o.Dir), "/") || len(o.Dir) > 60 {
		problems = append(problems, fmt.Errorf("ROUSE_STATE must be an absolute path of at most 60 letters, since sockets are in it: %s", o.Dir))
	}
	return errors.Join(problems...)
}

// BindFlags adds the options' flags.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.EnvoyGateway, "envoy-gateway", o.EnvoyGateway,
		"up: Gateway API too, by Envoy Gateway, with the Gateway kyma-system/kyma-gateway for *.local.rouse.run")
	flags.BoolVar(&o.KeepFailed, "keep-failed", o.KeepFailed, "up: leave a cluster that failed to start, for a look at it")
	flags.IntVar(&o.Nodes, "nodes", o.Nodes, "up: how many nodes; several enforce NetworkPolicies (NODES)")
	flags.DurationVar(&o.ControlPlane.HPASync, "hpa-sync", o.ControlPlane.HPASync, "up: how often autoscalers are looked at")
	flags.DurationVar(&o.ControlPlane.HPADownscaleStabilization, "hpa-downscale-stabilization", o.ControlPlane.HPADownscaleStabilization,
		"up: for how long an autoscaler's highest recommendation counts")
}
