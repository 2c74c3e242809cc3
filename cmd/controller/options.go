package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/controller/apirules"
	"github.com/rouse-run/rouse/controller/conversion"
	"github.com/rouse-run/rouse/controller/door"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/controller/standin"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/schedule"
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
	controllers  []string
	function     function.Options
	activation   activator.Options
	exposure     apirules.Options
	registry     images.RegistryOptions
	git          gitpoll.Options
	images       images.Options
	caBundle     string
	deniedCIDRs  []string
	subscription subscription.Options
	schedules    schedule.Share
	doors        door.Options
	keys         types.NamespacedName
	conversion   conversion.Options
	broker       broker.Options
	manager      kube.ManagerOptions
	settings     settingswatch.Options
	standIns     standin.Options
}

func defaultOptions() *options {
	o := &options{
		function:     function.DefaultOptions(),
		registry:     images.DefaultRegistryOptions(),
		git:          gitpoll.DefaultOptions(),
		images:       images.DefaultOptions(),
		subscription: subscription.DefaultOptions(),
		schedules:    schedule.DefaultShare(),
		doors:        door.DefaultOptions(),
		broker:       broker.DefaultOptions(),
		manager:      kube.ManagerOptions{MetricsAddress: ":9090", Lease: "rouse-controller"},
		controllers:  allControllers,
	}
	o.broker.Name = "rouse-controller"
	return o
}

// Flags implements flags.Options. Values are checked that the controllers of this process use.
func (o *options) Flags(fs *flags.Set) {
	o.manager.Flags(fs)
	fs.String(&o.manager.Lease, "leader-elect-lease",
		"name of the lease: that of all processes which run the same controllers").NotEmpty()
	known := strings.Join(allControllers, ", ")
	fs.Strings(&o.controllers, "controllers", "which controllers run in this process, of "+known)
	fs.Require(len(o.controllers) > 0, "--controllers must not be empty")
	for _, name := range o.controllers {
		fs.Require(slices.Contains(allControllers, name), "--controllers must be of %s, is %q", known, name)
	}
	fs.Add(&o.settings, &o.conversion, &o.activation)

	o.exposure.Gateways = o.activation.GatewayService // both query the same gateways
	fs.When(o.runs(apiRules)).Add(&o.exposure)

	ofFunctions := fs.When(o.runs(functions))
	ofFunctions.String(&o.caBundle, "ca-bundle",
		"PEM file with certificates that are trusted besides those of the images, here and in builds; empty: none")
	ofFunctions.Strings(&o.deniedCIDRs, "denied-cidrs",
		"networks to which no connection is made for a Function's Git repository or for a registry that a namespace names, besides "+
			"loopback, link-local, multicast and metadata addresses: 10.0.0.0/8,fd00::/8")
	ofFunctions.Check(func() error {
		_, err := o.guard()
		return err
	})
	ofFunctions.Add(&o.function, &o.registry, &o.git, &o.images, &o.standIns)
	fs.Require(!o.standIns.Enabled() || o.runs(functions) && o.runs(activators), "--stand-ins-per-namespace needs --controllers with %s and %s", functions, activators)
	fs.When(o.runs(activators, subscriptions)).Add(&o.subscription, &o.schedules, &o.doors, &o.broker, &o.exposure.Alias)
	fs.Service(&o.keys, "door-keys",
		"Secret in which bridges find the keys of Doors, and of Subscriptions that sign, namespace/name; empty: there are neither")
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
