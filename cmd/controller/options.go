package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/controller/apirules"
	"github.com/rouse-run/rouse/controller/conversion"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
)

// Controllers that a process may run. The Function controller depends neither on NATS nor on gateways, so that it
// can run without them.
const (
	functions     = "functions"
	activators    = "activators"
	apiRules      = "apirules"
	subscriptions = "subscriptions"
)

var allControllers = []string{functions, activators, apiRules, subscriptions}

type options struct {
	controllers          []string
	function             function.Options
	activation           activator.Options
	exposure             apirules.Options
	registry             images.RegistryOptions
	git                  gitpoll.Options
	images               images.Options
	caBundle             string
	deniedCIDRs          []string
	subscription         subscription.Options
	conversion           conversion.Options
	broker               broker.Options
	metricsAddress       string
	leaderElect          bool
	leaderElectNamespace string
	leaderElectLease     string
	settings             settingswatch.Options
}

func defaultOptions() *options {
	o := &options{
		function:       function.DefaultOptions(),
		registry:       images.DefaultRegistryOptions(),
		git:            gitpoll.DefaultOptions(),
		images:         images.DefaultOptions(),
		subscription:   subscription.DefaultOptions(),
		broker:         broker.DefaultOptions(),
		metricsAddress: ":9090",

		controllers:      allControllers,
		leaderElectLease: "rouse-controller",
	}
	o.broker.Name = "rouse-controller"
	return o
}

// BindFlags binds the options to command-line flags.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "address of /metrics, /healthz and /readyz")
	fs.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "let one of several replicas work at a time")
	fs.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", o.leaderElectNamespace,
		"namespace of the lease; that of the pod when empty")
	fs.StringVar(&o.leaderElectLease, "leader-elect-lease", o.leaderElectLease,
		"name of the lease: that of all processes which run the same controllers")
	fs.StringSliceVar(&o.controllers, "controllers", o.controllers,
		"which controllers run in this process, of "+strings.Join(allControllers, ", "))
	fs.StringVar(&o.caBundle, "ca-bundle", o.caBundle,
		"PEM file with certificates that are trusted besides those of the images, here and in builds; empty: none")
	fs.StringSliceVar(&o.deniedCIDRs, "denied-cidrs", o.deniedCIDRs,
		"networks to which no connection is made for a Function's Git repository or for a registry that a namespace names, besides "+
			"loopback, link-local, multicast and metadata addresses: 10.0.0.0/8,fd00::/8")
	o.function.BindFlags(fs)
	o.activation.BindFlags(fs)
	o.exposure.BindFlags(fs)
	o.registry.BindFlags(fs)
	o.git.BindFlags(fs)
	o.images.BindFlags(fs)
	o.subscription.BindFlags(fs)
	o.conversion.BindFlags(fs)
	o.broker.BindFlags(fs)
	o.settings.BindFlags(fs)
}

// Validate reports every invalid option that the controllers of this process use.
func (o *options) Validate() error {
	problems := []error{o.validateControllers(), o.settings.Validate(), o.conversion.Validate()}
	o.exposure.Gateways = o.activation.GatewayService // both query the same gateways
	if o.runs(functions) {
		_, denied := o.guard()
		problems = append(problems, denied, o.function.Validate(), o.registry.Validate(), o.git.Validate(), o.images.Validate())
	}
	if o.runs(apiRules) {
		problems = append(problems, o.exposure.Validate())
	}
	if o.runs(activators, subscriptions) {
		problems = append(problems, o.subscription.Validate(), o.broker.Validate())
	}
	return errors.Join(problems...)
}

func (o *options) validateControllers() error {
	var problems []error
	if len(o.controllers) == 0 {
		problems = append(problems, errors.New("--controllers: must not be empty"))
	}
	for _, name := range o.controllers {
		if !slices.Contains(allControllers, name) {
			problems = append(problems, fmt.Errorf("--controllers %q: must be of %s", name, strings.Join(allControllers, ", ")))
		}
	}
	if o.leaderElectLease == "" {
		problems = append(problems, errors.New("--leader-elect-lease: must not be empty"))
	}
	return errors.Join(problems...)
}

// runs reports whether any of the controllers is to run.
func (o *options) runs(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(o.controllers, name) })
}

// guard restricts the addresses that are dialled for tenants.
func (o *options) guard() (dialguard.Guard, error) {
	denied, err := dialguard.ParseDenied(o.deniedCIDRs)
	if err != nil {
		return dialguard.Guard{}, fmt.Errorf("--denied-cidrs: %w", err)
	}
	return dialguard.Guard{Denied: denied}, nil
}
