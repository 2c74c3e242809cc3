// Command gateway receives the HTTP requests of Functions that are asleep and holds them until a pod accepts connections.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/conditions"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/settings"
)

func main() {
	o := options{gateway: gateway.DefaultOptions()}
	os.Exit(daemon.Main("gateway", os.Args[1:], &o, func(ctx context.Context, log logr.Logger) error { return run(ctx, &o, log) }))
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	if err := o.readAuthorizers(); err != nil {
		return err
	}
	functions := map[client.Object]cache.ByObject{&v1alpha2.Function{}: {Transform: conditions.Transform}}
	objects, err := kube.NewCache(log, functions, watch.GatewayServices())
	if err != nil {
		return err
	}
	known := conditions.New(objects)
	if err := known.Watch(ctx); err != nil {
		return err
	}
	if o.gateway.Addresses, err = addresses(); err != nil {
		return err
	}
	endpoints := watch.NewEndpoints(objects, log)
	deps := gateway.Deps{
		Listings:  watch.NewListings(objects),
		Endpoints: endpoints,
		Functions: known,
		Registry:  daemon.NewRegistry(),
		Log:       log,
	}
	if o.apiRules.Enabled {
		deps.Exposures = func(ctx context.Context, apply func([]apirule.Exposure)) error {
			return watch.APIRules(ctx, objects, o.apiRules, apply)
		}
		if o.doorTokenFile != "" {
			deps.DoorToken = tokenIn(o.doorTokenFile)
		}
	}
	serves := gateway.New(deps, o.gateway)
	config, _, err := kube.Cluster()
	if err != nil {
		return err
	}
	watcher, err := settingswatch.New(o.settings, settingswatch.Deps{Config: config, Log: log, Registry: deps.Registry, Apply: func(read *settings.Settings) {
		serves.SetWait(cmp.Or(read.HTTPWait, o.gateway.Activator.Wait))
	}})
	if err != nil {
		return err
	}
	return daemon.RunOn(ctx, serves.Run, objects.Start, endpoints.Run, watcher.Run, daemon.PaceCollector, settingswatch.DebuggedBehindServices(objects, log, false).Run)
}

// tokenIn returns the token in a file, which kubelet replaces before it ends.
func tokenIn(file string) func() (string, error) {
	source := transport.NewCachedFileTokenSource(file)
	return func() (string, error) {
		token, err := source.Token()
		if err != nil {
			return "", fmt.Errorf("--door-token-file: %w", err)
		}
		return token.AccessToken, nil
	}
}

type options struct {
	gateway         gateway.Options
	apiRules        watch.APIRuleSettings
	authorizersFile string
	doorTokenFile   string
	settings        settingswatch.Options
}

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) {
	fs.Add(&o.gateway, &o.apiRules, &o.apiRules.Alias, &o.settings)
	fs.String(&o.doorTokenFile, "door-token-file", "token of this process's ServiceAccount, by which bridges take requests to Doors from it")
	fs.String(&o.authorizersFile, "authorizers-file", "list of the authorizers that extAuth of APIRules may name, as JSON")
}

// readAuthorizers reads the authorizers from their file.
func (o *options) readAuthorizers() error {
	if o.authorizersFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.authorizersFile)
	if err != nil {
		return fmt.Errorf("--authorizers-file: %w", err)
	}
	if o.gateway.APIRules.Authorizers, err = apirules.ParseAuthorizers(text); err != nil {
		return fmt.Errorf("--authorizers-file: %w", err)
	}
	for i := range o.gateway.APIRules.Authorizers {
		o.apiRules.Authorizers = append(o.apiRules.Authorizers, o.gateway.APIRules.Authorizers[i].Name)
	}
	return nil
}

// addresses returns the addresses of the pod, without loopback.
func addresses() ([]string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this pod: %w", err)
	}
	var found []string
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && !network.IP.IsLoopback() {
			found = append(found, network.IP.String())
		}
	}
	return found, nil
}
