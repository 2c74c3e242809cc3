package local

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/e2e/cluster/controlplane"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/release"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Options are what a user may set.
type Options struct {
	Repository   string
	Checkout     string // of which Rouse, its chart, its runtimes and NATS are; the repository itself unless a flag says otherwise
	Cache        state.Cache
	Dir          state.Dir
	Bare         bool // Kubernetes and its addons only
	EnvoyGateway bool // an implementation of Gateway API too
	KeepFailed   bool // leave a failed cluster for a look
	Runtimes     []string
	Out          string // where bases are written to
	NATSReplicas int
	Nodes        int
	Kubeconfig   string // of a cluster of the user's own; empty: the local cluster
	ControlPlane controlplane.Options
}

// DefaultOptions are those of a user who sets nothing, but for what the environment says.
func DefaultOptions(getenv func(string) string) (Options, error) {
	options := Options{
		Dir: state.FromEnv(getenv), ControlPlane: controlplane.DefaultOptions(), Runtimes: release.DefaultRuntimes(), NATSReplicas: 1,
		Nodes: 1,
	}
	if names := getenv("ROUSE_RUNTIMES"); names != "" {
		options.Runtimes = strings.Split(names, ",")
	}
	var err error
	for name, number := range map[string]*int{"NATS_REPLICAS": &options.NATSReplicas, "NODES": &options.Nodes} {
		text := getenv(name)
		if text == "" {
			continue
		}
		if *number, err = strconv.Atoi(text); err != nil {
			return options, fmt.Errorf("%s: %w", name, err)
		}
	}
	// The local cluster's own kubeconfig, as env prints it, is no cluster of the user's.
	if own := getenv("KUBECONFIG"); own != options.Dir.Kubeconfig() {
		options.Kubeconfig = own
	}
	options.Cache, err = state.CacheFromEnv(getenv)
	return options, err
}

// Validate lists what cannot be.
func (o *Options) Validate() error {
	var problems []error
	if o.NATSReplicas != 1 && o.NATSReplicas != 3 {
		problems = append(problems, fmt.Errorf("NATS replicas can be 1 or 3, not %d", o.NATSReplicas))
	}
	if o.Nodes < 1 || o.Nodes > network.MaxMembers {
		problems = append(problems, fmt.Errorf("nodes can be 1 to %d, not %d", network.MaxMembers, o.Nodes))
	}
	if _, err := release.Choose(o.Runtimes); err != nil {
		problems = append(problems, err)
	}
	if !strings.HasPrefix(string(o.Dir), "/") || len(o.Dir) > 60 {
		problems = append(problems, fmt.Errorf("ROUSE_STATE must be an absolute path of at most 60 letters, since sockets are in it: %s", o.Dir))
	}
	return errors.Join(problems...)
}

// BindFlags adds the options' flags.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Bare, "bare", o.Bare, "up: Kubernetes, CoreDNS, registry and KEDA only, without Rouse")
	flags.BoolVar(&o.EnvoyGateway, "envoy-gateway", o.EnvoyGateway,
		"up: Gateway API too, by Envoy Gateway, with the Gateway kyma-system/kyma-gateway for *.local.rouse.run")
	flags.BoolVar(&o.KeepFailed, "keep-failed", o.KeepFailed, "up: leave a cluster that failed to start, for a look at it")
	flags.StringVar(&o.Checkout, "checkout", o.Checkout, "up: another checkout that Rouse, its chart, its runtimes and NATS are made of")
	flags.StringSliceVar(&o.Runtimes, "runtimes", o.Runtimes, "up: runtimes of Functions to make images of (ROUSE_RUNTIMES)")
	flags.StringVar(&o.Out, "out", o.Out, "bases: the folder that they are written to, which is not there yet")
	flags.IntVar(&o.NATSReplicas, "nats-replicas", o.NATSReplicas, "up: 1 is the chart's NATS, 3 a cluster of servers beside it (NATS_REPLICAS)")
	flags.IntVar(&o.Nodes, "nodes", o.Nodes, "up: how many nodes; several enforce NetworkPolicies (NODES)")
	flags.DurationVar(&o.ControlPlane.HPASync, "hpa-sync", o.ControlPlane.HPASync, "up: how often autoscalers are looked at")
	flags.DurationVar(&o.ControlPlane.HPADownscaleStabilization, "hpa-downscale-stabilization", o.ControlPlane.HPADownscaleStabilization,
		"up: for how long an autoscaler's highest recommendation counts")
}
